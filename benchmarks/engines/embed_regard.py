"""Run Regard as an engine of the benchmark of encoders, as an installation without torch would."""

import os

from common import Decode, Work, run


def load(work: Work) -> Decode:
    os.environ["REGARD_THREADS"] = str(work.threads * work.workers)
    import regard

    embedder = regard.load_embedder(work.model, bits=work.bits)
    return lambda lines: list(embedder.vectors(lines))


if __name__ == "__main__":
    run(load)
