"""Decoding by Hugging Face's generate: python in_hugging_face.py FOLDER TOKENS BEAM < ids."""

import json
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

folder, tokens, beam = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = AutoConfig.from_pretrained(folder)
pairs = config.is_encoder_decoder
model = (AutoModelForSeq2SeqLM if pairs else AutoModelForCausalLM).from_pretrained(folder).eval()
rows = json.loads(sys.stdin.read())
end = config.eos_token_id
outputs: list[list[int]] = [[] for _ in rows]


def generated(group: list[int]) -> None:
    longest = max(len(rows[i]) for i in group)
    ids = torch.tensor([rows[i] + [config.pad_token_id] * (longest - len(rows[i])) for i in group])
    token_mask = torch.tensor([[1] * len(rows[i]) + [0] * (longest - len(rows[i])) for i in group])
    generated = model.generate(
        ids, attention_mask=token_mask, max_new_tokens=tokens, do_sample=False, num_beams=beam
    )
    for i, row in zip(group, generated[:, 1 if pairs else longest :].tolist(), strict=True):
        outputs[i] = row[: row.index(end)] if end in row else row


order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
size = 100 if pairs else 1  # prompts are decoded one by one: they are padded on the other side
with torch.inference_mode():
    for start in range(0, len(order), size):
        generated(order[start : start + size])
print(json.dumps(outputs))
