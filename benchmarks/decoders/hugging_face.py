"""Hugging Face's `generate` as one of the engines of the decoding benchmark."""

from typing import Any

from common import LONGEST, Answer, Work, do


def load(work: Work) -> Answer:
    import torch

    torch.set_num_threads(work.threads * work.workers)
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    kind = AutoModelForCausalLM if work.tokens else AutoModelForSeq2SeqLM
    model = kind.from_pretrained(work.model).eval()
    tokenizer = Tokenizer.from_file(f"{work.model}/tokenizer.json")
    padding, end = model.config.pad_token_id, model.config.eos_token_id
    room = {"max_new_tokens": work.tokens} if work.tokens else {"max_length": LONGEST + 1}

    def batch(rows: list[list[int]]) -> dict[str, Any]:
        longest = max(map(len, rows))
        ids = torch.full((len(rows), longest), padding)
        real = torch.zeros(len(rows), longest, dtype=torch.long)
        for place, row in enumerate(rows):  # prompts are padded on the left, sources on the right
            where = slice(longest - len(row), longest) if work.tokens else slice(0, len(row))
            ids[place, where], real[place, where] = torch.tensor(row), 1
        return {"input_ids": ids, "attention_mask": real}

    def text(ids: list[int]) -> str:
        stop = ids.index(end) if end in ids else len(ids)
        return str(tokenizer.decode(ids[:stop], skip_special_tokens=True))

    @torch.inference_mode()
    def answer(lines: list[str]) -> list[str]:
        closing = [] if work.tokens else [end]
        rows = [tokenizer.encode(line, add_special_tokens=False).ids + closing for line in lines]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        outputs = [""] * len(rows)
        for start in range(0, len(order), work.batch):
            group = order[start : start + work.batch]
            given = batch([rows[i] for i in group])
            found = model.generate(**given, num_beams=work.beam, do_sample=False, **room)
            skip = given["input_ids"].size(1) if work.tokens else 1
            for i, ids in zip(group, found[:, skip:].tolist(), strict=True):
                outputs[i] = text(ids)
        return outputs

    return answer


if __name__ == "__main__":
    do(load)
