"""Squared ReLU: its equation, and decoding with torch because the engine has no code for it."""

import torch

from regard.engine.select import EngineModel
from regard.layers.activations.squared_relu import Spec, squared_relu
from regard.models.base import ModelSpec


def test_output_matches_equation() -> None:
    x = torch.tensor([-3.0, -0.5, 0.0, 0.5, 3.0])
    assert squared_relu(x).tolist() == [0.0, 0.0, 0.0, 0.25, 9.0]
    assert Spec().function() is squared_relu


def test_engine_leaves_decoding_to_torch() -> None:
    settings = {"kind": "language-model", "dim": 16, "heads": 2, "ffn_dim": 32, "layers": 1}
    feed_forward = {"kind": "dense", "activation": "squared-relu"}
    model = ModelSpec.model_validate({**settings, "feed_forward": feed_forward}).build(20).eval()
    assert not EngineModel(model, capacity=12).uses_engine
