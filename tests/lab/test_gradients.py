"""Gradient norms by position, and removal of the hook."""

import torch

from regard.lab.gradients import by_position
from regard.models.base import ModelSpec


def test_norms_are_those_of_the_embedding_gradient() -> None:
    settings = {"kind": "language-model", "dim": 16, "heads": 2, "ffn_dim": 32, "layers": 1}
    model = ModelSpec.model_validate({**settings, "tie_embeddings": False}).build(9).eval()
    ids = torch.tensor([[3, 1, 4, 8, 5]])  # every token once: one embedding row per position
    norms = by_position(model, ids, lambda logits: logits[0, 2, 7])
    assert not any(module._forward_hooks for module in model.modules())
    model(ids)[0, 2, 7].backward()
    (weights,) = (module for module in model.modules() if isinstance(module, torch.nn.Embedding))
    assert weights.weight.grad is not None
    expected = weights.weight.grad[ids] / 16**0.5  # embeddings are scaled by √D
    assert torch.allclose(norms, expected.norm(dim=-1), rtol=1e-4)
    assert (norms[0, 3:] == 0).all()  # later tokens
    assert (norms[0, :3] > 0).all()
