"""Serve CTranslate2, which computes batches in as many threads as there are workers."""

from typing import Any

from common import Decode, Emit, Rows, Settings, serve
from tokenizers import Tokenizer


def load(settings: Settings) -> Decode:
    import ctranslate2

    tokenizer = Tokenizer.from_file(f"{settings.model}/tokenizer.json")
    options: dict[str, Any] = {
        "compute_type": "int8" if settings.bits == 8 else "float32",
        "inter_threads": settings.workers,
        "intra_threads": settings.threads,
    }

    def names(rows: Rows) -> list[list[str]]:
        return [[tokenizer.id_to_token(token) for token in row] for row in rows]

    if settings.task == "translation":
        translator = ctranslate2.Translator(settings.model, **options)

        def translate(rows: Rows, limits: list[int], _: Emit | None) -> Rows:
            results = translator.translate_batch(
                names(rows), beam_size=1, max_decoding_length=max(limits)
            )
            hypotheses = [result.hypotheses[0] for result in results]
            return [[tokenizer.token_to_id(name) for name in names] for names in hypotheses]

        return translate
    generator = ctranslate2.Generator(settings.model, **options)

    def generate(rows: Rows, limits: list[int], emit: Emit | None) -> Rows:
        steps = _Steps(limits, emit)
        results = generator.generate_batch(
            names(rows),
            max_length=max(limits),
            include_prompt_in_result=False,
            callback=steps if emit or min(limits) < max(limits) else None,
        )
        steps.flush()
        return [result.sequences_ids[0] for result in results]

    return generate


class _Steps:
    """Ends rows at their limits and passes on the tokens of a step together.

    CTranslate2 calls it with each token.
    """

    def __init__(self, limits: list[int], emit: Emit | None) -> None:
        self._limits, self._emit = limits, emit
        self._step = -1
        self._tokens: list[tuple[int, int]] = []

    def __call__(self, result: Any) -> bool:
        """Return whether the row has ended."""
        if self._emit is not None:
            if result.step != self._step:
                self.flush()
                self._step = result.step
            self._tokens.append((result.batch_id, result.token_id))
        return bool(result.step + 1 >= self._limits[result.batch_id])

    def flush(self) -> None:
        if self._emit is not None and self._tokens:
            self._emit(self._tokens)
            self._tokens = []


if __name__ == "__main__":
    serve(load)
