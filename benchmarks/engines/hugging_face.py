"""Run Hugging Face's `generate` as an engine of the decoding benchmark."""

from typing import Any

from common import MAX_TOKENS, Decode, Work, run


def load(work: Work) -> Decode:
    import torch

    torch.set_num_threads(work.threads * work.workers)
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    kind = AutoModelForCausalLM if work.tokens else AutoModelForSeq2SeqLM
    model = kind.from_pretrained(work.model).eval()
    tokenizer = Tokenizer.from_file(f"{work.model}/tokenizer.json")
    pad_id, end_id = model.config.pad_token_id, model.config.eos_token_id
    limit = {"max_new_tokens": work.tokens} if work.tokens else {"max_length": MAX_TOKENS + 1}

    def batch(rows: list[list[int]]) -> dict[str, Any]:
        longest = max(map(len, rows))
        ids = torch.full((len(rows), longest), pad_id)
        token_mask = torch.zeros(len(rows), longest, dtype=torch.long)
        for index, row in enumerate(rows):  # prompts are padded on the left, sources on the right
            positions = slice(longest - len(row), longest) if work.tokens else slice(0, len(row))
            ids[index, positions], token_mask[index, positions] = torch.tensor(row), 1
        return {"input_ids": ids, "attention_mask": token_mask}

    def text(ids: list[int]) -> str:
        stop = ids.index(end_id) if end_id in ids else len(ids)
        return str(tokenizer.decode(ids[:stop], skip_special_tokens=True))

    @torch.inference_mode()
    def decode(lines: list[str]) -> list[str]:
        suffix = [] if work.tokens else [end_id]
        rows = [tokenizer.encode(line, add_special_tokens=False).ids + suffix for line in lines]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        outputs = [""] * len(rows)
        for start in range(0, len(order), work.batch):
            group = order[start : start + work.batch]
            inputs = batch([rows[i] for i in group])
            generated = model.generate(**inputs, num_beams=work.beam, do_sample=False, **limit)
            skip = inputs["input_ids"].size(1) if work.tokens else 1
            for i, ids in zip(group, generated[:, skip:].tolist(), strict=True):
                outputs[i] = text(ids)
        return outputs

    return decode


if __name__ == "__main__":
    run(load)
