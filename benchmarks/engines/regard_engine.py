"""Run Regard as an engine of the decoding benchmark, as an installation without torch would."""

import os

from common import MAX_TOKENS, Decode, Work, run


def load(work: Work) -> Decode:
    os.environ["REGARD_THREADS"] = str(work.threads * work.workers)
    import regard
    from regard.decoding.config import DecodingConfig

    model = regard.load(work.model, bits=work.bits)
    decoding = DecodingConfig(beam=work.beam, early_stopping=work.early_stopping)
    if not work.tokens:
        return lambda lines: model.translate(lines, decoding=decoding, max_tokens=MAX_TOKENS)
    return lambda lines: [texts[0] for texts in model.candidates(lines, work.tokens, decoding)]


if __name__ == "__main__":
    run(load)
