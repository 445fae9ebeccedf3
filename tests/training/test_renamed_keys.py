"""Recipe keys and kinds of earlier versions are refused, and the message gives the new name."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from regard.attention.base import AttentionSpec
from regard.config import Kind, Spec, kind_specs, kinds, read_yaml, validate
from regard.data.config import DataSpec
from regard.data.filters.config import FiltersSpec
from regard.data.sources.base import SourceSpec
from regard.errors import ConfigError
from regard.layers.feedforward.base import FeedForwardSpec
from regard.models.base import ModelSpec
from regard.training.config import EvaluationSpec, TrainingSpec
from regard.training.recipe import Recipe, make_recipe
from regard.training.tasks.base import TaskSpec

FIXTURES = Path(__file__).parents[1] / "fixtures" / "format-1"
RECIPES = sorted(FIXTURES.glob("*/recipe.yaml"))

TRANSFORMER = {
    "inner": "ffn_dim",
    "kept_heads": "retained_heads",
    "key_heads": "kv_heads",
    "key_size": "head_dim",
}
BASELINE = {"does": "capability", "tie": "tie_embeddings"}
TIED = {**TRANSFORMER, "tie": "tie_embeddings"}

# Section, kind, and its keys of format 1 that have another name now
KEYS: list[tuple[type[Spec], str, Mapping[str, str]]] = [
    (Recipe, "", {"job": "task", "look": "attention_history", "vectors": "pretrained_embeddings"}),
    (DataSpec, "", {"checks": "filters", "held_out": "dev_size", "without": "exclude"}),
    (FiltersSpec, "", {"held_out": "eval_overlap", "max_lost": "max_dropped"}),
    (SourceSpec, "tsv", {"share": "split"}),
    (SourceSpec, "text", {"part": "fraction"}),
    (
        SourceSpec,
        "grammar",
        {
            "held_out": "dev_size",
            "part": "split",
            "pronouns": "pronouns_size",
            "train": "train_size",
        },
    ),
    (TaskSpec, "language-model", {"documents": "document_mask"}),
    (
        TaskSpec,
        "masked-lm",
        {"masked": "mask_token_rate", "random": "random_token_rate", "share": "mask_rate"},
    ),
    (TaskSpec, "span-corruption", {"mean_span": "mean_span_length", "share": "corruption_rate"}),
    (ModelSpec, "classifier", TRANSFORMER),
    (ModelSpec, "decoder-only", TIED),
    (ModelSpec, "encoder", TRANSFORMER),
    (ModelSpec, "encoder-decoder", TIED),
    (ModelSpec, "language-model", TIED),
    (ModelSpec, "masked-lm", TIED),
    (ModelSpec, "convolutional", BASELINE),
    (ModelSpec, "recurrent", BASELINE),
    (ModelSpec, "self-attention-only", BASELINE),
    (AttentionSpec, "alternating", {"of": "pattern"}),
    (AttentionSpec, "compressed", {"width": "stride"}),
    (FeedForwardSpec, "gated", {"gate": "activation"}),
    (
        FeedForwardSpec,
        "moe",
        {
            "balance": "balance_loss",
            "capacity": "capacity_factor",
            "experts": "num_experts",
            "of": "expert",
            "top": "top_k",
        },
    ),
    (EvaluationSpec, "", {"keep": "select"}),
    (
        TrainingSpec,
        "",
        {
            "accumulate": "grad_accumulation",
            "average": "ema_decay",
            "clip": "max_grad_norm",
            "dropout_from": "dropout_start_epoch",
            "layer_decay": "layer_lr_decay",
            "optimiser": "optimizer",
            "rates": "lr_multipliers",
            "sharded": "fsdp",
            "spread_experts": "expert_parallel",
        },
    ),
]

KINDS: list[tuple[type[Kind], Mapping[str, str]]] = [
    (AttentionSpec, {"blocks": "block-local"}),
    (FeedForwardSpec, {"experts": "moe"}),
    (
        ModelSpec,
        {"bare": "self-attention-only", "masked": "masked-lm", "word-window": "convolutional"},
    ),
    (SourceSpec, {"labelled": "labeled", "labelled-jsonl": "labeled-jsonl"}),
    (TaskSpec, {"masked": "masked-lm", "span": "span-corruption"}),
]

# Settings whose values were renamed with their key
VALUES: Mapping[str, Mapping[str, Any]] = {
    "documents": {"across": False, "apart": True},
    "does": {"continue text": "causal-lm", "translate": "seq2seq"},
}


@pytest.mark.parametrize(
    ("section", "kind", "old", "new"),
    [(section, kind, *pair) for section, kind, pairs in KEYS for pair in pairs.items()],
)
def test_a_renamed_key_is_refused_with_its_new_name(
    section: type[Spec], kind: str, old: str, new: str
) -> None:
    content = {old: None, **({"kind": kind} if kind else {})}
    message = f"recipe.yaml: the key '{old}' was renamed to '{new}'"
    with pytest.raises(ConfigError, match=re.escape(message)):
        validate(section, content, "recipe.yaml")
    assert new in _spec(section, kind).model_fields


@pytest.mark.parametrize(
    ("section", "old", "new"),
    [(section, *pair) for section, pairs in KINDS for pair in pairs.items()],
)
def test_a_renamed_kind_is_refused_with_its_new_name(
    section: type[Kind], old: str, new: str
) -> None:
    message = f"recipe.yaml: the kind '{old}' was renamed to '{new}'"
    with pytest.raises(ConfigError, match=re.escape(message)):
        validate(section, {"kind": old}, "recipe.yaml")
    assert new in kinds(section.package)


def _spec(section: type[Spec], kind: str) -> type[Spec]:
    if not issubclass(section, Kind):
        return section
    return next(spec for spec in kind_specs(section.package) if spec.kind() == kind)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_following_the_messages_makes_a_recipe_of_format_1_valid(path: Path) -> None:
    """A recipe as format 1 wrote it has all keys of its sections: no renamed one is forgotten."""
    content = read_yaml(path)
    for _ in range(100):
        try:
            make_recipe(content, (), "recipe")
        except ConfigError as error:
            _follow(content, str(error))
        else:
            return
    pytest.fail("the recipe is still not valid")


def _follow(content: dict[str, Any], message: str) -> None:
    pattern = r"recipe: (?:([\w.-]+): )?the (key|kind) '(.+?)' was renamed to '(.+?)'"
    match = re.match(pattern, message)
    assert match, message
    path, what, old, new = match.groups()
    section: Any = content
    for part in path.split(".") if path else ():
        section = section[int(part) if part.isdigit() else part]
    if what == "kind":
        section["kind"] = new
    else:
        value = section.pop(old)
        section[new] = VALUES.get(old, {}).get(value, value) if isinstance(value, str) else value
