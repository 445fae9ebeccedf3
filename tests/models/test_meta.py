"""Models on the meta device: the names and shapes of real ones, without torch's compiler."""

import json
import subprocess
import sys

import pytest
import torch

from regard.config import kinds
from regard.models.base import ModelSpec
from regard.models.meta import on_meta

SMALL = {"dim": 16, "heads": 2, "ffn_dim": 16, "layers": 1, "max_length": 16}

BUILD = """
import json
import sys
from regard.config import kinds
from regard.models.base import ModelSpec
from regard.models.meta import on_meta

for position in kinds("regard.positions"):
    for kind in ("language-model", "encoder-decoder", "classifier"):
        content = {"kind": kind, **json.loads(sys.argv[1]), "position": position}
        try:
            with on_meta():
                ModelSpec.model_validate(content).build(9)
        except Exception as error:
            print(position, kind, error, file=sys.stderr)
            continue
        heavy = [name for name in ("torch._dynamo", "sympy") if name in sys.modules]
        if heavy:
            sys.exit(f"{kind} with {position}: {heavy}")
"""


def test_no_compiler_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BUILD, json.dumps(SMALL)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("position", sorted(set(kinds("regard.positions")) - {"syntax"}))
def test_names_and_shapes_are_those_of_a_real_model(position: str) -> None:
    spec = ModelSpec.model_validate({"kind": "language-model", **SMALL, "position": position})
    with on_meta():
        abstract = spec.build(9)
    real = spec.build(9)
    assert all(parameter.is_meta for parameter in abstract.parameters())
    assert shapes(abstract) == shapes(real)


def shapes(model: torch.nn.Module) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in model.named_parameters()}
