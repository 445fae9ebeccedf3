"""Run ONNX Runtime as an engine of the benchmark of encoders."""

from common import Decode, Work, run
from pooling import Array, embedder, padded


def load(work: Work) -> Decode:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = work.threads * work.workers
    session = onnxruntime.InferenceSession(f"{work.model}/fused-{work.bits}.onnx", options)

    def states(rows: list[list[int]]) -> Array:
        ids, mask = padded(rows)
        result: Array = session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        return result

    return embedder(work, states)


if __name__ == "__main__":
    run(load)
