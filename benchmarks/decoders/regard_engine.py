"""Regard as one of the engines of the decoding benchmark."""

from common import LONGEST, Answer, Work, do


def load(work: Work) -> Answer:
    import torch

    torch.set_num_threads(work.threads * work.workers)
    import regard
    from regard.decoding.config import DecodingConfig

    model, search = (
        regard.load(work.model, bits=work.bits),
        DecodingConfig(beam=work.beam, early_stopping=work.quick),
    )
    if not work.tokens:
        return lambda lines: model.translate(lines, decoding=search, max_tokens=LONGEST)
    return lambda lines: [found[0] for found in model.candidates(lines, work.tokens, search)]


if __name__ == "__main__":
    do(load)
