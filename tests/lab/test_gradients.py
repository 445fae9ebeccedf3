"""Gradients by place are those of the embeddings, and looking leaves nothing behind."""

import torch

from regard.lab.gradients import by_place
from regard.models.base import ModelSpec


def test_sizes_are_those_of_the_embeddings_gradient() -> None:
    given = {"kind": "language-model", "dim": 16, "heads": 2, "ffn_dim": 32, "layers": 1}
    model = ModelSpec.model_validate({**given, "tie_embeddings": False}).build(9).eval()
    ids = torch.tensor([[3, 1, 4, 8, 5]])  # each word once: its row of E is its place
    sizes = by_place(model, ids, lambda logits: logits[0, 2, 7])
    assert not any(each._forward_hooks for each in model.modules())
    model(ids)[0, 2, 7].backward()
    (weights,) = (each for each in model.modules() if isinstance(each, torch.nn.Embedding))
    assert weights.weight.grad is not None
    expected = weights.weight.grad[ids] / 16**0.5  # embeddings are scaled by √D
    assert torch.allclose(sizes, expected.norm(dim=-1), rtol=1e-4)
    assert (sizes[0, 3:] == 0).all()  # what comes later
    assert (sizes[0, :3] > 0).all()
