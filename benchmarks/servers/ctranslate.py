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

        def translate(rows: Rows, tokens: int, _: Emit | None) -> Rows:
            results = translator.translate_batch(
                names(rows), beam_size=1, max_decoding_length=tokens
            )
            hypotheses = [result.hypotheses[0] for result in results]
            return [[tokenizer.token_to_id(name) for name in names] for names in hypotheses]

        return translate
    generator = ctranslate2.Generator(settings.model, **options)

    def generate(rows: Rows, tokens: int, emit: Emit | None) -> Rows:
        steps = None if emit is None else _Steps(emit)
        results = generator.generate_batch(
            names(rows), max_length=tokens, include_prompt_in_result=False, callback=steps
        )
        if steps is not None:
            steps.flush()
        return [result.sequences_ids[0] for result in results]

    return generate


class _Steps:
    """Passes on the tokens of a step together; CTranslate2 calls it with each of them."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._step = -1
        self._tokens: list[tuple[int, int]] = []

    def __call__(self, result: Any) -> bool:
        if result.step != self._step:
            self.flush()
            self._step = result.step
        self._tokens.append((result.batch_id, result.token_id))
        return False  # to continue

    def flush(self) -> None:
        if self._tokens:
            self._emit(self._tokens)
            self._tokens = []


if __name__ == "__main__":
    serve(load)
