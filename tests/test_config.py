"""Recipes: what is wrong is named, with its key and the nearest right one."""

import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from regard.attention.base import AttentionSpec
from regard.config import (
    Kind,
    Spec,
    kind_specs,
    kinds,
    override,
    plain,
    read_yaml,
    validate,
    write_yaml,
)
from regard.data.sources.base import SourceSpec
from regard.errors import ConfigError
from regard.layers.feedforward.base import FeedForwardSpec
from regard.models.base import ModelSpec
from regard.training.recipe import Recipe, make_recipe, read_recipe

GOOD = {"data": {"train": "grammar"}, "model": {"kind": "encoder-decoder", "size": "tiny"}}


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("model.haeds=8", "recipe: model: unknown key 'haeds', did you mean 'heads'?"),
        ("modle.heads=8", "recipe: unknown key 'modle', did you mean 'model'?"),
        ("model.heads=-1", "recipe: model.heads: input should be greater than 0 (given: -1)"),
        ("model.dropout=1.5", "recipe: model.dropout: input should be less than 1 (given: 1.5)"),
        ("model.heads=many", "recipe: model.heads: input should be a valid integer"),
        ("model.heads=3", "recipe: model: dim: 128 cannot be divided into 3 heads"),
        ("model.position=rotery", "no kind 'rotery', did you mean 'rotary'?"),
        ("model.position.bse=3", "recipe: model.position: unknown key 'bse', did you mean 'base'?"),
        ("model.kind=encoder.x", "recipe: model: there is no kind 'encoder.x'"),
        ("model.kind=kind", "recipe: model: there is no kind 'kind'"),
        ("model=3", "recipe: model: needs a kind, one of: classifier, convolutional, decoder-only"),
        ("training.steps=[", "training.steps: '[' is not a YAML value"),
        ("training", "'training' is not an override"),
        ("model.heads.more=1", "model.heads.more: 'heads' is a single value"),
    ],
)
def test_a_wrong_override_is_one_clear_sentence(assignment: str, complaint: str) -> None:
    content = {**GOOD, "model": {**GOOD["model"], "heads": 4}}
    with pytest.raises(ConfigError) as caught:
        make_recipe(content, [assignment], "recipe")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_kind_without_settings_can_be_a_word_and_then_given_settings() -> None:
    recipe = make_recipe(
        {**GOOD, "model": {"kind": "encoder-decoder", "position": "rotary"}},
        ["model.position.base=500", "training.optimizer.learning_rate=1e-3"],
        "recipe",
    )
    assert recipe.model.position.kind() == "rotary"
    assert recipe.model.position.base == 500
    assert recipe.training.optimizer.kind() == "muon"
    assert recipe.training.optimizer.learning_rate == 1e-3


def test_a_recipe_written_out_reads_back_the_same(tmp_path: Path) -> None:
    recipe = make_recipe(GOOD, ["model.position.kind=relative"], "recipe")
    (tmp_path / "recipe.yaml").write_text(write_yaml(recipe))
    assert read_recipe(tmp_path / "recipe.yaml") == recipe
    assert plain(recipe)["model"]["position"] == {"kind": "relative", "clip": 16, "on_values": True}


def test_specs_are_frozen() -> None:
    spec = validate(ModelSpec, {"kind": "encoder"}, "recipe")
    with pytest.raises(ValueError, match="frozen"):
        spec.heads = 8


def test_overrides_leave_the_recipe_they_are_made_in_alone() -> None:
    recipe = {"model": {"heads": 4}}
    assert override(recipe, ["model.heads=8"]) == {"model": {"heads": 8}}
    assert recipe == {"model": {"heads": 4}}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\na: 2\n", "the key 'a' is given twice"),
        ("a: [1\n", "not valid YAML"),
        ("- a\n", "a recipe is a mapping"),
        ("", "a recipe is a mapping"),
    ],
)
def test_a_broken_file_is_one_clear_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_yaml(tmp_path / "recipe.yaml")
    assert complaint in str(caught.value)
    assert "recipe.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: there is no such recipe"):
        read_yaml(tmp_path / "nowhere.yaml")


def test_every_field_of_a_recipe_says_what_it_is() -> None:
    def check(spec: type) -> None:
        for name, field in spec.model_fields.items():
            assert field.description, f"{spec.__module__}.{spec.__name__}.{name}"

    packages = ["attention", "positions", "models", "layers.norms", "layers.feedforward"]
    packages += ["data.sources", "data.tokenizers"]
    packages += ["training.optim.optimizers", "training.optim.schedules", "training.tasks"]
    check(Recipe)
    for package in packages:
        specs = kind_specs(f"regard.{package}")
        assert specs
        for spec in specs:
            assert issubclass(spec, Kind)
            check(spec)


def test_on_and_no_are_words_and_true_is_not(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("on: [no, yes, off, truely]\ntie: true\nbias: False\n")
    content = {"on": ["no", "yes", "off", "truely"], "tie": True, "bias": False}
    assert read_yaml(path) == content
    assert override({}, ["a.on=no", "b=true"]) == {"a": {"on": "no"}, "b": True}


def test_renamed_keys_and_kinds_name_their_new_names() -> None:
    class Old(Spec):
        renamed_keys: ClassVar[Mapping[str, str]] = {"colour": "color"}

        color: str = "red"

    with pytest.raises(ConfigError, match="the key 'colour' was renamed to 'color'"):
        validate(Old, {"colour": "blue"}, "recipe.yaml")
    with pytest.raises(ConfigError, match="the kind 'bare' was renamed to 'self-attention-only'"):
        validate(ModelSpec, {"kind": "bare"}, "recipe.yaml")


def test_renamed_kinds_lead_to_kinds_that_exist() -> None:
    bases = (ModelSpec, AttentionSpec, FeedForwardSpec, SourceSpec)
    for base in bases:
        assert base.renamed_kinds
        for old, new in base.renamed_kinds.items():
            assert new in kinds(base.package)
            assert old not in kinds(base.package)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
            for old, new in itertools.pairwise("abcdefghi")
        ),
        "a: &a [*a]",
        "a: " + "[" * 10_000,
        "a: " + "9" * 5000,
        "? [1, 2]\n: 3",
        "? {a: 1}\n: 3",
        "a: 2001-99-99",
        "a: !!timestamp x",
        "a: !!int ''",
        "a: !!binary x",
        "a: !!python/object:os.system x",
        "a:\t- b",
        "a: \x00",
        "a: 1\n---\nb: 2",
        "[1]",
        "x" * 300_000,
    ],
)
def test_hostile_recipes_are_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "recipe.yaml").write_text(text)
    begun = time.process_time()
    with pytest.raises(ConfigError, match=r"recipe\.yaml: ") as caught:
        read_yaml(tmp_path / "recipe.yaml")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(tmp_path))
    assert time.process_time() - begun < 5


def test_aliases_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("a: &x [1, 2]\nb: *x\n")
    assert read_yaml(tmp_path / "recipe.yaml") == {"a": [1, 2], "b": [1, 2]}
