"""Run Hugging Face's BERT as an engine of the benchmark of encoders."""

from common import Decode, Work, run
from pooling import Array, embedder, padded


def load(work: Work) -> Decode:
    import torch

    torch.set_num_threads(work.threads * work.workers)
    from transformers import AutoModel

    model = AutoModel.from_pretrained(work.model).eval()

    @torch.inference_mode()
    def states(rows: list[list[int]]) -> Array:
        ids, mask = map(torch.from_numpy, padded(rows))
        result: Array = model(input_ids=ids, attention_mask=mask).last_hidden_state.numpy()
        return result

    return embedder(work, states)


if __name__ == "__main__":
    run(load)
