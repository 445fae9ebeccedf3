"""Decoding by Hugging Face's generate: answers requests of peer.py."""

import torch
from peer import Ids, answer_requests
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM


def decode(folder: str, rows: list[Ids], tokens: int, beam: int) -> list[Ids]:
    config = AutoConfig.from_pretrained(folder)
    pairs, end, pad = config.is_encoder_decoder, config.eos_token_id, config.pad_token_id
    kind = AutoModelForSeq2SeqLM if pairs else AutoModelForCausalLM
    model = kind.from_pretrained(folder).eval()
    outputs: list[Ids] = [[] for _ in rows]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    size = 100 if pairs else 1  # prompts are decoded one by one: they are padded on the other side
    for start in range(0, len(order), size):
        group = order[start : start + size]
        longest = len(rows[group[-1]])
        ids = torch.tensor([rows[i] + [pad] * (longest - len(rows[i])) for i in group])
        lengths = torch.tensor([len(rows[i]) for i in group])
        token_mask = (torch.arange(longest) < lengths[:, None]).long()
        generated = model.generate(
            ids, attention_mask=token_mask, max_new_tokens=tokens, do_sample=False, num_beams=beam
        )
        for i, row in zip(group, generated[:, 1 if pairs else longest :].tolist(), strict=True):
            outputs[i] = row[: row.index(end)] if end in row else row
    return outputs


with torch.inference_mode():
    answer_requests(decode)
