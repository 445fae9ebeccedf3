"""Run OpenVINO as an engine of the benchmark of encoders."""

from common import Decode, Work, run
from pooling import Array, embedder, padded


def load(work: Work) -> Decode:
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": work.threads * work.workers,
        "INFERENCE_PRECISION_HINT": "f32",  # its default is bfloat16 where the processor has it
        "PERFORMANCE_HINT": "LATENCY",  # one batch after the other, as in the other engines
    }
    model = openvino.Core().compile_model(f"{work.model}/model.onnx", "CPU", settings)

    def states(rows: list[list[int]]) -> Array:
        ids, mask = padded(rows)
        result: Array = model({"input_ids": ids, "attention_mask": mask})[0]
        return result

    return embedder(work, states)


if __name__ == "__main__":
    run(load)
