"""Serve Hugging Face's `generate`, one batch at a time."""

from typing import Any

from common import Decode, Emit, Rows, Settings, serve


def load(settings: Settings) -> Decode:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    torch.set_num_threads(settings.threads)
    is_completion = settings.task == "completion"
    kind = AutoModelForCausalLM if is_completion else AutoModelForSeq2SeqLM
    model = kind.from_pretrained(settings.model).eval()
    pad_id, end_id = model.config.pad_token_id, model.config.eos_token_id

    def batch(rows: Rows) -> dict[str, Any]:
        longest = max(map(len, rows))
        ids = torch.full((len(rows), longest), pad_id)
        token_mask = torch.zeros(len(rows), longest, dtype=torch.long)
        for index, row in enumerate(rows):  # prompts are padded on the left, sources on the right
            positions = slice(longest - len(row), longest) if is_completion else slice(0, len(row))
            ids[index, positions], token_mask[index, positions] = torch.tensor(row), 1
        return {"input_ids": ids, "attention_mask": token_mask}

    @torch.inference_mode()
    def decode(rows: Rows, limits: list[int], emit: Emit | None) -> Rows:
        inputs = batch(rows if is_completion else [[*row, end_id] for row in rows])
        generated = model.generate(
            **inputs,
            max_new_tokens=max(limits),
            num_beams=1,
            do_sample=False,
            streamer=None if emit is None else _Steps(emit),
        )
        skipped = inputs["input_ids"].size(1) if is_completion else 1
        return [_before(end_id, ids) for ids in generated[:, skipped:].tolist()]

    return decode


def _before(end_id: int, ids: list[int]) -> list[int]:
    return ids[: ids.index(end_id)] if end_id in ids else ids


class _Steps:
    """A streamer of `generate`: passes on the tokens of each step, without the prompts."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._has_prompts = False

    def put(self, tokens: Any) -> None:
        if self._has_prompts:
            self._emit(list(enumerate(tokens.tolist())))
        self._has_prompts = True

    def end(self) -> None:
        """Do nothing: the batch ends with the call of `generate`."""


if __name__ == "__main__":
    serve(load)
