"""CTranslate2 as one of the engines of the decoding benchmark."""

from typing import Any

from common import LONGEST, Answer, Work, do


def load(work: Work) -> Answer:
    import ctranslate2
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{work.model}/tokenizer.json")
    settings: dict[str, Any] = {
        "compute_type": "int8" if work.bits == 8 else "float32",
        "inter_threads": work.workers,
        "intra_threads": work.threads,
    }

    def pieces(lines: list[str]) -> list[list[str]]:
        return [tokenizer.encode(line, add_special_tokens=False).tokens for line in lines]

    def text(tokens: list[str]) -> str:
        return str(tokenizer.decode([tokenizer.token_to_id(token) for token in tokens]))

    common = {"max_batch_size": work.batch, "beam_size": work.beam}
    if work.tokens:
        generator = ctranslate2.Generator(work.model, **settings)
        common |= {"max_length": work.tokens, "include_prompt_in_result": False}

        def written(lines: list[str]) -> list[str]:
            found = generator.generate_batch(pieces(lines), **common)
            return [text(each.sequences[0]) for each in found]

        return written
    translator = ctranslate2.Translator(work.model, **settings)

    def translated(lines: list[str]) -> list[str]:
        found = translator.translate_batch(pieces(lines), max_decoding_length=LONGEST, **common)
        return [text(each.hypotheses[0]) for each in found]

    return translated


if __name__ == "__main__":
    do(load)
