"""Run CTranslate2 as an engine of the decoding benchmark."""

from typing import Any

from common import MAX_TOKENS, Decode, Work, run


def load(work: Work) -> Decode:
    import ctranslate2
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{work.model}/tokenizer.json")
    settings: dict[str, Any] = {
        "compute_type": "int8" if work.bits == 8 else "float32",
        "inter_threads": work.workers,
        "intra_threads": work.threads,
    }

    def tokenize(lines: list[str]) -> list[list[str]]:
        return [tokenizer.encode(line, add_special_tokens=False).tokens for line in lines]

    def text(tokens: list[str]) -> str:
        return str(tokenizer.decode([tokenizer.token_to_id(token) for token in tokens]))

    common = {"max_batch_size": work.batch, "beam_size": work.beam}
    if work.tokens:
        generator = ctranslate2.Generator(work.model, **settings)
        common |= {"max_length": work.tokens, "include_prompt_in_result": False}

        def generate(lines: list[str]) -> list[str]:
            results = generator.generate_batch(tokenize(lines), **common)
            return [text(result.sequences[0]) for result in results]

        return generate
    translator = ctranslate2.Translator(work.model, **settings)

    def translate(lines: list[str]) -> list[str]:
        results = translator.translate_batch(
            tokenize(lines), max_decoding_length=MAX_TOKENS, **common
        )
        return [text(result.hypotheses[0]) for result in results]

    return translate


if __name__ == "__main__":
    run(load)
