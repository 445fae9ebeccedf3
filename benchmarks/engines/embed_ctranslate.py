"""Run CTranslate2 as an engine of the benchmark of encoders."""

from common import Decode, Work, run
from pooling import Array, embedder


def load(work: Work) -> Decode:
    import ctranslate2
    import numpy as np

    encoder = ctranslate2.Encoder(
        work.model,
        compute_type="int8" if work.bits == 8 else "float32",
        intra_threads=work.threads * work.workers,
    )

    def states(rows: list[list[int]]) -> Array:
        return np.array(encoder.forward_batch(rows).last_hidden_state)

    return embedder(work, states)


if __name__ == "__main__":
    run(load)
