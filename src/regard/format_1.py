"""Upgrade run folders of format 1 to format 2, which renamed keys, kinds and parameters.

Plain data in, plain data out: `upgrade_description` takes the content of model.json,
`upgrade_weights` the tensors by name. A name that is not in a table stays as it is, so a folder
that has some of the new names already is upgraded too.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

FORMAT = 1

T = TypeVar("T")
Renames = Mapping[str, str]

TASKS: Renames = {"masked": "masked-lm", "span": "span-corruption"}

# model
MODEL_KINDS: Renames = {
    "bare": "self-attention-only",
    "masked": "masked-lm",
    "word-window": "convolutional",
}
MODEL_KEYS: Renames = {
    "does": "capability",
    "inner": "ffn_dim",
    "kept_heads": "retained_heads",
    "key_heads": "kv_heads",
    "key_size": "head_dim",
    "tie": "tie_embeddings",
}
CAPABILITIES: Renames = {
    "classify": "sequence-classification",
    "continue text": "causal-lm",
    "fill": "masked-lm",
    "translate": "seq2seq",
}
ATTENTION_KINDS: Renames = {"blocks": "block-local"}
ATTENTION_KEYS: Mapping[str, Renames] = {  # by kind
    "alternating": {"of": "pattern"},
    "compressed": {"width": "stride"},
}
FEED_FORWARD_KINDS: Renames = {"experts": "moe"}
FEED_FORWARD_KEYS: Mapping[str, Renames] = {  # by kind of format 2
    "gated": {"gate": "activation"},
    "moe": {
        "balance": "balance_loss",
        "capacity": "capacity_factor",
        "experts": "num_experts",
        "of": "expert",
        "top": "top_k",
    },
}

# details
DETAILS: Renames = {
    "inherited": "init_report",
    "tokenizer": "tokenizer_fingerprint",
    "trained": "trainable_parameters",
}
TASK_DETAILS: Mapping[str, Renames] = {  # by task of format 2
    "classification": {"sides": "num_texts", "trees": "tree_source", "written": "label_format"},
    "encoder": {"normalise": "normalize"},
    "language-model": {"begin": "bos"},
    "summarization": {"says": "max_summary_tokens", "source": "truncate_source"},
    "translation": {"never": "suppressed_tokens"},
}
TRAINING: Renames = {
    "seconds": "elapsed_seconds",
    "stale": "evals_since_best",
    "tokens": "target_tokens",
}
SCORES: Renames = {
    "exact": "exact_match",
    "high": "accuracy_high",
    "low": "accuracy_low",
    "right": "correct",
}
IMPORTED: Renames = {"left_out": "unused_weights"}
INIT_REPORT_LINE: Renames = {"carried": "copied", "fate": "status"}
SIGNATURES: Mapping[str, tuple[str, ...]] = {  # the metrics that a signature describes
    "signature": ("bleu", "rouge1", "rouge2", "rouge_l"),
    "chrf_signature": ("chrf",),
}

# Parts of parameter and module names, between dots, as regular expressions
PARAMETERS: Renames = {
    "around_attention": "attention_residual",
    "around_cross": "cross_residual",
    "around_feed_forward": "feed_forward_residual",
    "gate": "gate_proj",
    "narrow": "down_proj",
    "widen": "up_proj",
    # convolutional
    "around": "residual",
    "map": "proj",
    "window": "convolution",
    # recurrent
    "ahead": "forward_cell",
    "back": "backward_cell",
    r"(blocks\.\d+)\.join": r"\1.proj",
}


def upgrade_description(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a model.json of format 1 as format 2 would have it."""
    upgraded = _rename_keys(description, {"job": "task"})
    upgraded["format"] = FORMAT + 1
    upgraded["task"] = TASKS.get(upgraded["task"], upgraded["task"])
    upgraded["model"] = _upgrade_model(upgraded["model"])
    upgraded["details"] = _upgrade_details(upgraded["details"], upgraded["task"])
    return upgraded


def upgrade_weights(weights: Mapping[str, T]) -> dict[str, T]:
    """Return the weights by the parameter names of format 2."""
    return {upgrade_name(name): weight for name, weight in weights.items()}


def upgrade_name(name: str) -> str:
    """Return the name in format 2 of a parameter, of a module, or of a pattern for either."""
    for old, new in PARAMETERS.items():
        name = re.sub(rf"(?<![^.]){old}(?![^.])", new, name)
    return name


def _upgrade_model(model: Mapping[str, Any]) -> dict[str, Any]:
    upgraded = _rename_keys(model, MODEL_KEYS)
    upgraded["kind"] = MODEL_KINDS.get(upgraded["kind"], upgraded["kind"])
    for key in ("attention", "encoder_attention", "cross_attention"):
        if upgraded.get(key) is not None:
            upgraded[key] = _upgrade_attention(upgraded[key])
    if "feed_forward" in upgraded:
        upgraded["feed_forward"] = _upgrade_feed_forward(upgraded["feed_forward"])
    if "capability" in upgraded:
        upgraded["capability"] = CAPABILITIES.get(upgraded["capability"], upgraded["capability"])
    if upgraded.get("retained_heads"):
        heads = upgraded["retained_heads"]
        upgraded["retained_heads"] = {upgrade_name(path): heads[path] for path in heads}
    return upgraded


def _upgrade_attention(spec: Mapping[str, Any]) -> dict[str, Any]:
    upgraded = _rename_keys(spec, ATTENTION_KEYS.get(spec["kind"], {}))
    upgraded["kind"] = ATTENTION_KINDS.get(spec["kind"], spec["kind"])
    if "pattern" in upgraded:
        upgraded["pattern"] = [_upgrade_attention(nested) for nested in upgraded["pattern"]]
    return upgraded


def _upgrade_feed_forward(spec: Mapping[str, Any]) -> dict[str, Any]:
    kind = FEED_FORWARD_KINDS.get(spec["kind"], spec["kind"])
    upgraded = {**_rename_keys(spec, FEED_FORWARD_KEYS.get(kind, {})), "kind": kind}
    if "expert" in upgraded:
        upgraded["expert"] = _upgrade_feed_forward(upgraded["expert"])
    return upgraded


def _upgrade_details(details: Mapping[str, Any], task: str) -> dict[str, Any]:
    upgraded = _rename_keys(details, {**DETAILS, **TASK_DETAILS.get(task, {})})
    if "training" in upgraded:
        upgraded["training"] = _rename_keys(upgraded["training"], TRAINING)
    if "imported" in upgraded:
        upgraded["imported"] = _rename_keys(upgraded["imported"], IMPORTED)
    if "init_report" in upgraded:
        upgraded["init_report"] = _upgrade_init_report(upgraded["init_report"])
    if "adapter" in upgraded:
        upgraded["adapter"] = _upgrade_adapter(upgraded["adapter"])
    if "scores" in upgraded:
        upgraded["scores"] = _upgrade_scores(upgraded["scores"], task)
    return upgraded


def _upgrade_init_report(report: Mapping[str, Any]) -> dict[str, Any]:
    lines = [_rename_keys(line, INIT_REPORT_LINE) for line in report["lines"]]
    for line in lines:
        line["names"] = upgrade_name(line["names"])
    return {**report, "settings": _rename_keys(report["settings"], MODEL_KEYS), "lines": lines}


def _upgrade_adapter(adapter: Mapping[str, Any]) -> dict[str, Any]:
    spec = dict(adapter["spec"])
    spec["on"] = [upgrade_name(pattern) for pattern in spec["on"]]
    return {**adapter, "spec": spec}


def _upgrade_scores(scores: Mapping[str, Any], task: str) -> dict[str, Any]:
    if task == "translation":  # by direction
        return {direction: _upgrade_signatures(scores[direction]) for direction in scores}
    return _upgrade_signatures(scores)


def _upgrade_signatures(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Rename scores and collect the signatures of their metrics under `signatures`."""
    upgraded = _rename_keys(scores, SCORES)
    signatures = {
        metric: upgraded[key]
        for key, metrics in SIGNATURES.items()
        for metric in metrics
        if key in upgraded and metric in upgraded
    }
    kept = {key: value for key, value in upgraded.items() if key not in SIGNATURES}
    return {**kept, "signatures": signatures} if signatures else kept


def _rename_keys(content: Mapping[str, Any], renames: Renames) -> dict[str, Any]:
    return {renames.get(key, key): value for key, value in content.items()}
