"""Helpers of the exporters. An exporter is a file; it writes the files of another library."""

import json
from collections.abc import Sequence
from typing import Any

from regard.attention import fused, reference
from regard.attention.base import AttentionSpec
from regard.config import validate
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import ConfigError
from regard.layers.activations.base import ActivationSpec
from regard.models.base import ModelSpec
from regard.models.transformer import TransformerSpec
from regard.models.weights import set_weights
from regard.run_folder import Run

FULL = (fused.Spec, reference.Spec)


def refuse(what: str, where: str) -> ConfigError:
    """Error for a setting that the other library does not have."""
    return ConfigError(
        f"{what} has no equivalent in {where}, so this model cannot be exported to it."
    )


def built(run: Run) -> tuple[ModelSpec, Any]:
    """Build the model of a run, with its weights."""
    spec = validate(ModelSpec, run.model, "model.json")
    model = spec.build(run.vocabulary)
    set_weights(model, run.weights, "model.safetensors")
    return spec, model.eval()


def refuse_uneven(spec: ModelSpec, where: str) -> None:
    """Refuse pruned heads: in other libraries all layers have the same number of heads."""
    if getattr(spec, "retained_heads", None):
        raise refuse("model.retained_heads", where)


def refuse_sparse(spec: ModelSpec, where: str) -> None:
    """Refuse sparse attention: other libraries have full softmax attention."""
    for _, attention in spec:
        if isinstance(attention, AttentionSpec) and not isinstance(attention, FULL):
            raise refuse(f"attention {attention.kind()}", where)


def check_settings(spec: TransformerSpec, where: str, **required: Any) -> None:
    """Refuse a model with a setting that the other library does not have.

    `required` maps a path in the spec, with __ for a dot, to the allowed value or values.
    """
    for path, allowed in required.items():
        value: Any = spec
        for name in path.split("__"):
            value = getattr(value, name)
        value = value() if callable(value) else value
        if value not in (allowed if isinstance(allowed, tuple) else (allowed,)):
            raise refuse(f"model.{path.removesuffix('__kind').replace('__', '.')}: {value}", where)


def activation_name(activation: ActivationSpec) -> str:
    """Return Hugging Face's name of an activation; refuse one that it does not have."""
    if not activation.hugging_face_names:
        raise refuse(f"activation {activation.kind()}", "Hugging Face")
    return activation.hugging_face_names[0]


def label_details(run: Run) -> tuple[list[str], bool, float]:
    """Return the labels of a classifier, whether a text may have several, and its temperature."""
    details = run.details
    several = (details.get("label_format") or {}).get("separator") is not None
    return list(details["labels"]), several, float(details.get("temperature", 1.0))


def label_config(labels: Sequence[str], several: bool) -> dict[str, Any]:
    """Return the labels of a classifier as in Hugging Face's config.json."""
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
        "problem_type": f"{'multi' if several else 'single'}_label_classification",
    }


def end_ids(run: Run, tokenizer: Tokenizer) -> int | list[int]:
    """Return the id of the end token, or the ids of several, as Hugging Face's eos_token_id."""
    end = run.details.get("end", tokenizer.end)
    others = run.details.get("other_ends", ())
    return [end, *others] if others else end


def suppressed_phrases(run: Run) -> list[list[int]] | None:
    """Return the tokens that are never generated, as Hugging Face's bad_words_ids."""
    return [[token] for token in run.details.get("suppressed_tokens", ())] or None


def as_json(content: Any) -> bytes:
    """JSON as UTF-8, indented."""
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
