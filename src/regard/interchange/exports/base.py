"""To other libraries, one file each. Each gives the files of a folder, by name."""

import json
from typing import Any

from regard.attention import fused, reference
from regard.attention.base import AttentionSpec
from regard.config import validate
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.models.weights import set_weights
from regard.run_folder import Run

FULL = (fused.Spec, reference.Spec)


def refuse(what: str, where: str) -> ConfigError:
    return ConfigError(
        f"{what} has no equivalent in {where}, so this model cannot be exported to it."
    )


def built(run: Run) -> tuple[ModelSpec, Any]:
    """The run's model, with its weights."""
    spec = validate(ModelSpec, run.model, "model.json")
    model = spec.build(run.vocabulary)
    set_weights(model, run.weights, "model.safetensors")
    return spec, model.eval()


def refuse_uneven(spec: ModelSpec, where: str) -> None:
    """Elsewhere all layers have the same heads."""
    if getattr(spec, "retained_heads", None):
        raise refuse("model.retained_heads", where)


def refuse_sparse(spec: ModelSpec, where: str) -> None:
    """Elsewhere every word can look at every other, by a softmax."""
    for _, attention in spec:
        if isinstance(attention, AttentionSpec) and not isinstance(attention, FULL):
            raise refuse(f"attention {attention.kind()}", where)


def as_json(content: Any) -> bytes:
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
