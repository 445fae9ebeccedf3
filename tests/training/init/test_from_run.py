"""Initialization from another run, adapters and merging."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import regard
from regard import run_folder
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import ConfigError, Interrupted, OutputError, RunError
from regard.insight.heads.pruning import prune
from regard.merged_run import read_merged
from regard.models.base import ModelSpec
from regard.run_folder import Run
from regard.training import trainer as module
from regard.training.checks.properties import parameter_gradients
from regard.training.checks.setup import make_context
from regard.training.init.merge_adapter import merge
from regard.training.recipe import Recipe, make_recipe, read_recipe
from regard.training.reporting.progress import silent
from regard.training.signals import Interruption
from regard.training.trainer import resume, train

SMALL = {"dim": 32, "heads": 2, "ffn_dim": 64, "layers": 2, "dropout": 0.1, "max_length": 24}
WORDS = {"good": ["lovely", "witty", "warm"], "bad": ["boring", "clumsy", "cold"]}
PLAIN = ["the", "film", "was", "and", "its", "plot", "seemed", "a", "very", "story"]

MakeRecipe = Callable[..., Recipe]


def labeled_texts(count: int, seed: int = 1) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [
        (" ".join(rng.sample([*PLAIN[:6], *rng.choices(words, k=2)], 8)), label)
        for _ in range(count)
        for label, words in WORDS.items()
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inheritance")
    texts = labeled_texts(120)
    (folder / "text.txt").write_text("".join(f"{text}\n" for text, _ in texts))
    (folder / "texts.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in texts))
    return folder


@pytest.fixture(scope="module")
def language_model_recipe(folder: Path) -> MakeRecipe:
    """Make a recipe for a language model."""
    data = {part: {"kind": "text", "path": str(folder / "text.txt")} for part in ("train", "dev")}

    def make(*changes: str, **sections: Any) -> Recipe:
        content = {
            "task": "language-model",
            "data": {
                **data,
                "prepared": str(folder / "prepared"),
                "filters": {"eval_overlap": "keep"},
            },
            "tokenizer": {"kind": "word", "vocabulary": 320},
            "model": {"kind": "language-model", **SMALL},
            "training": {"steps": 6, "batch_tokens": 300, "evaluation": {"every": 3}},
            **sections,
        }
        content = {key: value for key, value in content.items() if value is not None}
        return make_recipe(content, changes, "recipe")

    return make


@pytest.fixture(scope="module")
def classifier_recipe(folder: Path) -> MakeRecipe:
    """Make a recipe for a classifier with as few keys as possible."""

    def make(init: Path, *changes: str, **sections: Any) -> Recipe:
        content = {
            "task": "classification",
            "init": str(init),
            "data": {
                "train": {"kind": "labeled", "path": str(folder / "texts.tsv")},
                "dev_size": 10,
                "prepared": str(folder / "prepared"),
                "filters": {"duplicates": "keep"},
            },
            "training": {"steps": 6, "batch_tokens": 300, "evaluation": {"every": 3}},
            **sections,
        }
        return make_recipe(content, changes, "recipe")

    return make


@pytest.fixture(scope="module")
def base(language_model_recipe: MakeRecipe, folder: Path) -> Path:
    """A language model."""
    train(language_model_recipe(), folder / "base")
    return folder / "base"


LORA = {"kind": "lora", "rank": 4, "alpha": 8, "on": ["w_q", "w_v"]}


@pytest.fixture(scope="module")
def adapted(base: Path, classifier_recipe: MakeRecipe, folder: Path) -> Path:
    """A classifier that is an adapter of the language model."""
    train(classifier_recipe(base, adapter=LORA), folder / "adapted")
    return folder / "adapted"


def weights(run: Path) -> dict[str, Tensor]:
    return load_file(run_folder.path_of(run, run_folder.WEIGHTS))


def train_until(recipe: Recipe, run: Path, step: int) -> None:
    """Train and interrupt after a number of steps."""
    with pytest.MonkeyPatch.context() as patch:
        interruption = Interruption()

        def make_hook(*_: Any) -> Callable[[Any], None]:
            def hook(event: Any) -> None:
                interruption.requested = (
                    interruption.requested or getattr(event, "step", 0) >= step - 1
                )

            return hook

        patch.setattr(module, "_step_hook", make_hook)
        patch.setattr(
            module, "catch_interrupts", lambda: __import__("contextlib").nullcontext(interruption)
        )
        with pytest.raises(Interrupted):
            train(recipe, run)


# --- the recipe


def test_init_completes_a_recipe_of_three_keys(base: Path, classifier_recipe: MakeRecipe) -> None:
    recipe = classifier_recipe(base)
    spec = run_folder.read(base).model
    assert recipe.model.kind() == "classifier"
    assert {recipe.model.dim, recipe.model.ffn_dim, recipe.model.max_length} == {32, 64, 24}
    assert recipe.model.position.kind() == spec["position"]["kind"]
    assert recipe.tokenizer.kind() == "file"
    assert (
        recipe.tokenizer.train([]).vocabulary()
        == Tokenizer.from_run(run_folder.read(base), "base").vocabulary()
    )


def test_recipe_keys_override_those_of_the_run(base: Path, classifier_recipe: MakeRecipe) -> None:
    recipe = classifier_recipe(base, "model.dropout=0.3", "tokenizer={kind: word, vocabulary: 310}")
    assert recipe.model.dropout == 0.3
    assert recipe.model.dim == 32
    assert recipe.tokenizer.kind() == "word"
    sized = classifier_recipe(base, "model.size=small")
    assert (sized.model.dim, sized.model.layers, sized.model.max_length) == (256, 3, 24)


def test_a_kind_with_the_capability_keeps_its_keys(
    language_model_recipe: MakeRecipe, folder: Path
) -> None:
    untied = folder / "untied"
    train(language_model_recipe("model.tie_embeddings=false", "training.steps=1"), untied)
    recipe = language_model_recipe(model=None, tokenizer=None, init=str(untied))
    assert recipe.model.kind() == "language-model"
    assert recipe.model.tie_embeddings is False


def test_pruned_heads_are_taken_over(
    base: Path, classifier_recipe: MakeRecipe, tmp_path: Path
) -> None:
    prune(base, tmp_path / "pruned", ["decoder.2.1"])
    recipe = classifier_recipe(tmp_path / "pruned", "training.steps=1")
    assert recipe.model.retained_heads == {"encoder.blocks.1.attention": (1,)}
    train(recipe, tmp_path / "run")
    (kept, added, *_) = run_folder.read(tmp_path / "run").details["init_report"]["lines"]
    assert (kept["status"], kept["names"], added["names"]) == ("kept", "encoder", "output")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["init=nowhere"], "init: nowhere: there is no such run folder"),
        (
            ["adapter.rank=100"],
            r"adapter\.rank: 100 is more than the rank of encoder.*set it to 32 at most",
        ),
        (["adapter.on=[w_x]"], r"adapter\.on: nothing in this model is called 'w_x'"),
        (["adapter=lorra"], "adapter: there is no kind 'lorra', did you mean 'lora'"),
        (["init=null", "adapter=lora", "model=classifier"], "adapter: there is no model to adapt"),
        (
            ["pretrained_embeddings={path: v.txt}"],
            "pretrained_embeddings: init already gives the embedding",
        ),
        (["training.freeze=[encoder, output]"], "no parameter is left to train"),
        (["training.freeze=[blocks.9]"], r"training\.freeze: nothing .* called 'blocks\.9'"),
        (["training.lr_multipliers={output: 0}"], "greater than 0"),
        (["model.dim=48"], "init: no weight of .* fits this model"),
        (["task=clasification"], "task: there is no kind 'clasification'"),
        (["init={ran: x}"], "unknown key 'ran', did you mean 'run'"),
    ],
)
def test_invalid_settings_are_refused_and_write_nothing(
    base: Path, classifier_recipe: MakeRecipe, tmp_path: Path, changes: list[str], message: str
) -> None:
    with pytest.raises((ConfigError, RunError), match=message):
        train(classifier_recipe(base, *changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_damaged_run_is_refused(
    base: Path, classifier_recipe: MakeRecipe, tmp_path: Path
) -> None:
    broken = Path(shutil.copytree(base, tmp_path / "broken"))
    run_folder.path_of(broken, run_folder.WEIGHTS).write_bytes(b"nonsense")
    with pytest.raises(RunError, match=r"init: .*broken/model-\w+.safetensors: does not match"):
        classifier_recipe(broken)


# --- the weights


def test_training_starts_from_the_weights_of_the_run(
    base: Path, classifier_recipe: MakeRecipe, tmp_path: Path
) -> None:
    recipe = classifier_recipe(base, "training.steps=1", "training.freeze=[encoder]")
    train(recipe, tmp_path / "run")
    initial, trained = weights(base), weights(tmp_path / "run")
    for name, weight in initial.items():
        assert torch.equal(trained[name.replace("decoder.", "encoder.")], weight), name
    assert trained.keys() - {n.replace("decoder.", "encoder.") for n in initial} == {
        "output.weight",
        "output.bias",
    }
    details = run_folder.read(tmp_path / "run").details
    assert [(line["status"], line["names"]) for line in details["init_report"]["lines"]] == [
        ("kept", "encoder"),
        ("added", "output"),
    ]
    assert details["trainable_parameters"] == 2 * 32 + 2
    card = (tmp_path / "run" / "README.md").read_text()
    assert f"from {base}" in card
    assert "| added | output | 66 |" in card
    assert "classifier, and was language-model" in card


def test_another_tokenizer_takes_over_the_rows_of_shared_pieces(
    base: Path, classifier_recipe: MakeRecipe, tmp_path: Path
) -> None:
    changes = ("tokenizer={kind: bpe, vocabulary: 300}", "training.freeze=[encoder]")
    train(classifier_recipe(base, "training.steps=1", *changes), tmp_path / "run")
    old, new = (
        Tokenizer.from_run(run_folder.read(each), str(each)) for each in (base, tmp_path / "run")
    )
    initial_row = {piece: row for row, piece in enumerate(old.vocabulary())}
    shared = [(row, initial_row[p]) for row, p in enumerate(new.vocabulary()) if p in initial_row]
    assert 260 <= len(shared) < len(new)
    trained = weights(tmp_path / "run")["encoder.embedding.tokens.weight"]
    initial = weights(base)["decoder.embedding.tokens.weight"]
    rows, initial_rows = map(list, zip(*shared, strict=True))
    assert torch.equal(trained[rows], initial[initial_rows])
    (line,) = [
        each
        for each in run_folder.read(tmp_path / "run").details["init_report"]["lines"]
        if each["status"] == "changed"
    ]
    assert line["note"].startswith(f"{len(shared)} of {len(new)} pieces")


def test_start_and_padding_ids_are_taken_over(
    base: Path, classifier_recipe: MakeRecipe, tmp_path: Path
) -> None:
    run = run_folder.read(base)
    other = Run(**{**vars(run), "details": {**run.details, "start": 7, "pad": 3}, "documents": {}})
    run_folder.write(other, tmp_path / "other")
    classifier = train(classifier_recipe(tmp_path / "other", "training.steps=1"), tmp_path / "run")
    for tokenizer in (classifier.tokenizer, regard.load(tmp_path / "run").tokenizer):
        assert (tokenizer.start, tokenizer.pad) == (7, 3)


def test_resume_needs_no_initial_run(
    base: Path, classifier_recipe: MakeRecipe, tmp_path: Path
) -> None:
    init = Path(shutil.copytree(base, tmp_path / "init"))
    settings = ("training.freeze=[embedding, blocks.0]", "training.layer_lr_decay=0.8")
    recipe = classifier_recipe(
        init, *settings, "training.ema_decay=0.5", "training.lr_multipliers={output: 3}"
    )
    train(recipe, tmp_path / "whole")
    train_until(recipe, tmp_path / "run", 3)
    shutil.rmtree(init)
    resume(tmp_path / "run")
    assert (run_folder.path_of(tmp_path / "run", run_folder.WEIGHTS)).read_bytes() == (
        run_folder.path_of(tmp_path / "whole", run_folder.WEIGHTS)
    ).read_bytes()
    resumed, expected = (run_folder.read(tmp_path / each).details for each in ("run", "whole"))
    assert resumed["init_report"] == expected["init_report"]
    before, after = weights(base), weights(tmp_path / "run")
    for name, weight in before.items():
        trained = after[name.replace("decoder.", "encoder.")]
        frozen = ".embedding." in name or ".blocks.0." in name
        assert torch.equal(trained.view(torch.int32), weight.view(torch.int32)) == frozen, name


def test_a_run_cannot_overwrite_its_initial_run(base: Path, classifier_recipe: MakeRecipe) -> None:
    before = (base / run_folder.MANIFEST).read_bytes()
    with pytest.raises(OutputError, match="is the run that the new one is made from"):
        train(classifier_recipe(base), base.parent / "nowhere" / ".." / base.name, overwrite=True)
    assert (base / run_folder.MANIFEST).read_bytes() == before


def test_init_and_adapter_cannot_change_on_resume(
    base: Path, classifier_recipe: MakeRecipe, tmp_path: Path
) -> None:
    train_until(classifier_recipe(base), tmp_path / "run", 2)
    for change in ("init=elsewhere", "adapter.rank=2"):
        with pytest.raises(ConfigError, match="cannot be changed when it is resumed"):
            resume(tmp_path / "run", [change])


# --- adapters


def test_an_adapter_run_contains_only_its_own_weights(base: Path, adapted: Path) -> None:
    own = weights(adapted)
    assert {name.rpartition(".")[2] for name in own} == {"a", "b", "weight", "bias"}
    assert {name for name in own if not name.endswith((".a", ".b"))} == {
        "output.weight",
        "output.bias",
    }
    assert len(own) == 2 * 2 * 2 + 2
    for folder in (adapted / "checkpoints").glob("step-*"):
        stored = load_file(folder / "state.safetensors")
        assert {n.removeprefix("model.") for n in stored if n.startswith("model.")} == own.keys()
    assert (run_folder.path_of(adapted, run_folder.WEIGHTS)).stat().st_size < (
        run_folder.path_of(base, run_folder.WEIGHTS)
    ).stat().st_size / 4
    assert any(weight.any() for name, weight in own.items() if name.endswith(".b"))


def merge_by_equation(base: Path, adapted: Path) -> dict[str, Tensor]:
    """Compute the merged weights from the files by LoRA's equation."""
    spec = json.loads((adapted / run_folder.MANIFEST).read_text())["details"]["adapter"]["spec"]
    own = weights(adapted)
    merged = {n.replace("decoder.", "encoder."): weight for n, weight in weights(base).items()}
    merged |= {name: weight for name, weight in own.items() if name.startswith("output")}
    for name, a in own.items():
        if name.endswith(".a"):
            matrix = name.removesuffix("a") + "weight"
            b = own[name.removesuffix("a") + "b"]
            merged[matrix] = merged[matrix] + spec["alpha"] / spec["rank"] * b @ a
    return merged


def test_loaded_adapter_weights_match_the_equation(base: Path, adapted: Path) -> None:
    expected = merge_by_equation(base, adapted)
    merged = read_merged(adapted)
    assert merged.weights.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(merged.weights[name], weight, rtol=1e-6, atol=1e-6)
    model = ModelSpec.model_validate(merged.model).build(merged.vocabulary).eval()
    model.load_state_dict(expected)
    classifier = regard.load(adapted)
    ids = torch.arange(5, 25).view(2, 10)
    token_mask = torch.ones_like(ids, dtype=torch.bool)
    torch.testing.assert_close(
        classifier.model(ids, token_mask), model(ids, token_mask), rtol=1e-5, atol=1e-5
    )


def test_a_merged_adapter_is_an_ordinary_run(adapted: Path, tmp_path: Path) -> None:
    merge(adapted, tmp_path / "merged")
    run = run_folder.read(tmp_path / "merged")
    assert "adapter" not in run.details
    assert run.details["merged"]["from"] == str(adapted)
    assert run.details["scores"] == run_folder.read(adapted).details["scores"]
    for name, weight in read_merged(adapted).weights.items():
        assert torch.equal(run.weights[name], weight)
    with pytest.raises(RunError, match="has no adapter, so there is nothing to merge"):
        merge(tmp_path / "merged", tmp_path / "again")
    with pytest.raises(regard.RegardError, match="merged: a trained model is there; --overwrite"):
        merge(adapted, tmp_path / "merged")


def test_an_adapter_and_its_base_can_move_together(
    base: Path, adapted: Path, tmp_path: Path
) -> None:
    for run in (base, adapted):
        shutil.copytree(run, tmp_path / run.name)
    regard.load(tmp_path / adapted.name)
    shutil.rmtree(tmp_path / base.name)
    with pytest.raises(
        RunError, match=f"{adapted.name}: an adapter whose base model .*{base.name}"
    ):
        regard.load(tmp_path / adapted.name)


def test_another_base_is_refused(
    base: Path, classifier_recipe: MakeRecipe, language_model_recipe: MakeRecipe, tmp_path: Path
) -> None:
    own_base = Path(shutil.copytree(base, tmp_path / "mine"))
    recipe = classifier_recipe(own_base, adapter=LORA)
    train(recipe, tmp_path / "run")
    train_until(recipe, tmp_path / "unfinished", 2)
    train(language_model_recipe("training.seed=2", "training.steps=1"), own_base, overwrite=True)
    with pytest.raises(RunError, match=r"run: an adapter .* holds another model than the one"):
        regard.load(tmp_path / "run")
    with pytest.raises(RunError, match="mine: holds another model than the one"):
        resume(tmp_path / "unfinished")
    with pytest.raises(RunError, match="mine: holds another model than the one"):
        train(read_recipe(tmp_path / "run" / "recipe.yaml"), tmp_path / "again")


def test_resumed_adapter_training_is_bit_identical(
    base: Path, classifier_recipe: MakeRecipe, tmp_path: Path
) -> None:
    recipe = classifier_recipe(base, adapter={**LORA, "dropout": 0.2})
    train(recipe, tmp_path / "whole")
    train_until(recipe, tmp_path / "run", 3)
    resume(tmp_path / "run")
    assert (run_folder.path_of(tmp_path / "run", run_folder.WEIGHTS)).read_bytes() == (
        run_folder.path_of(tmp_path / "whole", run_folder.WEIGHTS)
    ).read_bytes()


def test_an_adapter_can_be_the_initial_run(
    adapted: Path, classifier_recipe: MakeRecipe, tmp_path: Path
) -> None:
    """The base of the second adapter is the first one, merged."""
    train(classifier_recipe(adapted, "training.steps=1", adapter=LORA), tmp_path / "next")
    assert {name.rpartition(".")[2] for name in weights(tmp_path / "next")} == {"a", "b"}
    first = run_folder.read(tmp_path / "next").details["init_report"]["lines"]
    assert {line["status"] for line in first} == {"kept"}
    regard.load(tmp_path / "next")


def test_adapted_and_merged_language_models_generate_the_same_text(
    base: Path, language_model_recipe: MakeRecipe, tmp_path: Path
) -> None:
    recipe = language_model_recipe(model=None, tokenizer=None, init=str(base), adapter=LORA)
    generator = train(recipe, tmp_path / "run")
    merge(tmp_path / "run", tmp_path / "merged")
    texts = [
        model.generate("the film", max_tokens=8)
        for model in (generator, regard.load(tmp_path / "run"))
    ]
    assert texts == [regard.load(tmp_path / "merged").generate("the film", max_tokens=8)] * 2
    assert regard.load(tmp_path / "run").model.decoder.blocks[0].attention.w_q.weight.is_leaf


@pytest.mark.parametrize("settings", [{"adapter": LORA}, {"training.freeze": "[embedding]"}])
def test_the_gradient_check_ignores_frozen_parameters(
    base: Path, classifier_recipe: MakeRecipe, settings: dict[str, Any]
) -> None:
    changes = [f"{key}={value}" for key, value in settings.items() if key != "adapter"]
    settings = {"adapter": LORA} if "adapter" in settings else {}
    context = make_context(classifier_recipe(base, *changes, **settings), silent)
    assert context.frozen
    assert not parameter_gradients.Spec().check(context).failed
