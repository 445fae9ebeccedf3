"""From one run to the next: what is taken, what is told, what stays apart, what is refused."""

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

Make = Callable[..., Recipe]


def lines(count: int, seed: int = 1) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    return [
        (" ".join(chance.sample([*PLAIN[:6], *chance.choices(words, k=2)], 8)), label)
        for _ in range(count)
        for label, words in WORDS.items()
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inheritance")
    texts = lines(120)
    (folder / "text.txt").write_text("".join(f"{text}\n" for text, _ in texts))
    (folder / "texts.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in texts))
    return folder


@pytest.fixture(scope="module")
def writing(place: Path) -> Make:
    """A recipe for a language model."""
    data = {part: {"kind": "text", "path": str(place / "text.txt")} for part in ("train", "dev")}

    def make(*changes: str, **more: Any) -> Recipe:
        content = {
            "task": "language-model",
            "data": {
                **data,
                "prepared": str(place / "prepared"),
                "filters": {"eval_overlap": "keep"},
            },
            "tokenizer": {"kind": "word", "vocabulary": 320},
            "model": {"kind": "language-model", **SMALL},
            "training": {"steps": 6, "batch_tokens": 300, "evaluation": {"every": 3}},
            **more,
        }
        content = {key: value for key, value in content.items() if value is not None}
        return make_recipe(content, changes, "recipe")

    return make


@pytest.fixture(scope="module")
def labelling(place: Path) -> Make:
    """A recipe for a classifier that says no more than it must."""

    def make(init: Path, *changes: str, **more: Any) -> Recipe:
        content = {
            "task": "classification",
            "init": str(init),
            "data": {
                "train": {"kind": "labeled", "path": str(place / "texts.tsv")},
                "dev_size": 10,
                "prepared": str(place / "prepared"),
                "filters": {"duplicates": "keep"},
            },
            "training": {"steps": 6, "batch_tokens": 300, "evaluation": {"every": 3}},
            **more,
        }
        return make_recipe(content, changes, "recipe")

    return make


@pytest.fixture(scope="module")
def base(writing: Make, place: Path) -> Path:
    """A language model."""
    train(writing(), place / "base")
    return place / "base"


LORA = {"kind": "lora", "rank": 4, "alpha": 8, "on": ["w_q", "w_v"]}


@pytest.fixture(scope="module")
def adapted(base: Path, labelling: Make, place: Path) -> Path:
    """A classifier that is an adapter of the language model."""
    train(labelling(base, adapter=LORA), place / "adapted")
    return place / "adapted"


def weights(run: Path) -> dict[str, Tensor]:
    return load_file(run / run_folder.WEIGHTS)


def cut_off(recipe: Recipe, run: Path, step: int) -> None:
    """Train, and be stopped after so many steps."""
    with pytest.MonkeyPatch.context() as patch:
        stopped = Interruption()

        def look(*_: Any) -> Callable[[Any], None]:
            def see(event: Any) -> None:
                stopped.requested = stopped.requested or getattr(event, "step", 0) >= step - 1

            return see

        patch.setattr(module, "_step_hook", look)
        patch.setattr(
            module, "catch_interrupts", lambda: __import__("contextlib").nullcontext(stopped)
        )
        with pytest.raises(Interrupted):
            train(recipe, run)


# --- the recipe


def test_a_recipe_of_three_keys_is_whole(base: Path, labelling: Make) -> None:
    recipe = labelling(base)
    given = run_folder.read(base).model
    assert recipe.model.kind() == "classifier"
    assert {recipe.model.dim, recipe.model.ffn_dim, recipe.model.max_length} == {32, 64, 24}
    assert recipe.model.position.kind() == given["position"]["kind"]
    assert recipe.tokenizer.kind() == "file"
    assert (
        recipe.tokenizer.train([]).vocabulary()
        == Tokenizer.from_run(run_folder.read(base)).vocabulary()
    )


def test_what_the_recipe_says_of_the_model_goes_before(base: Path, labelling: Make) -> None:
    recipe = labelling(base, "model.dropout=0.3", "tokenizer={kind: word, vocabulary: 310}")
    assert recipe.model.dropout == 0.3
    assert recipe.model.dim == 32
    assert recipe.tokenizer.kind() == "word"
    sized = labelling(base, "model.size=small")
    assert (sized.model.dim, sized.model.layers, sized.model.max_length) == (256, 3, 24)


def test_a_kind_that_can_do_the_job_stays_and_its_own_keys_with_it(
    writing: Make, place: Path
) -> None:
    untied = place / "untied"
    train(writing("model.tie_embeddings=false", "training.steps=1"), untied)
    recipe = writing(model=None, tokenizer=None, init=str(untied))
    assert recipe.model.kind() == "language-model"
    assert recipe.model.tie_embeddings is False


def test_a_run_without_some_heads_hands_that_on(
    base: Path, labelling: Make, tmp_path: Path
) -> None:
    prune(base, tmp_path / "pruned", ["decoder.2.1"])
    recipe = labelling(tmp_path / "pruned", "training.steps=1")
    assert recipe.model.retained_heads == {"encoder.blocks.1.attention": (1,)}
    train(recipe, tmp_path / "run")
    (kept, added, *_) = run_folder.read(tmp_path / "run").details["init_report"]["lines"]
    assert (kept["status"], kept["names"], added["names"]) == ("kept", "encoder", "output")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["init=nowhere"], "init: nowhere: there is no such run folder"),
        (["adapter.rank=100"], r"adapter\.rank: 100 is more than encoder.*give 32 at most"),
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
        (["model.dim=48"], "init: no weight of .* has a place"),
        (["task=clasification"], "task: there is no kind 'clasification'"),
        (["init={ran: x}"], "unknown key 'ran', did you mean 'run'"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_leaves_nothing(
    base: Path, labelling: Make, tmp_path: Path, changes: list[str], complaint: str
) -> None:
    with pytest.raises((ConfigError, RunError), match=complaint):
        train(labelling(base, *changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_damaged_run_is_named(base: Path, labelling: Make, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(base, tmp_path / "broken"))
    (broken / run_folder.WEIGHTS).write_bytes(b"nonsense")
    with pytest.raises(RunError, match=r"init: .*broken/model.safetensors: does not match"):
        labelling(broken)


# --- the weights


def test_the_first_step_is_taken_from_the_weights_of_the_run(
    base: Path, labelling: Make, tmp_path: Path
) -> None:
    recipe = labelling(base, "training.steps=1", "training.freeze=[encoder]")
    train(recipe, tmp_path / "run")
    theirs, ours = weights(base), weights(tmp_path / "run")
    for name, weight in theirs.items():
        assert torch.equal(ours[name.replace("decoder.", "encoder.")], weight), name
    assert ours.keys() - {n.replace("decoder.", "encoder.") for n in theirs} == {
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


def test_another_tokenizer_takes_the_pieces_that_both_have(
    base: Path, labelling: Make, tmp_path: Path
) -> None:
    changes = ("tokenizer={kind: bpe, vocabulary: 300}", "training.freeze=[encoder]")
    train(labelling(base, "training.steps=1", *changes), tmp_path / "run")
    old, new = (Tokenizer.from_run(run_folder.read(each)) for each in (base, tmp_path / "run"))
    at = {piece: row for row, piece in enumerate(old.vocabulary())}
    shared = [(row, at[p]) for row, p in enumerate(new.vocabulary()) if p in at]
    assert 260 <= len(shared) < len(new)
    ours = weights(tmp_path / "run")["encoder.embedding.tokens.weight"]
    theirs = weights(base)["decoder.embedding.tokens.weight"]
    rows, places = map(list, zip(*shared, strict=True))
    assert torch.equal(ours[rows], theirs[places])
    (line,) = [
        each
        for each in run_folder.read(tmp_path / "run").details["init_report"]["lines"]
        if each["status"] == "changed"
    ]
    assert line["note"].startswith(f"{len(shared)} of {len(new)} pieces")


def test_start_and_padding_stay_the_pieces_that_they_were(
    base: Path, labelling: Make, tmp_path: Path
) -> None:
    run = run_folder.read(base)
    other = Run(**{**vars(run), "details": {**run.details, "start": 7, "pad": 3}, "documents": {}})
    run_folder.write(other, tmp_path / "other")
    labeller = train(labelling(tmp_path / "other", "training.steps=1"), tmp_path / "run")
    for tokenizer in (labeller.tokenizer, regard.load(tmp_path / "run").tokenizer):
        assert (tokenizer.start, tokenizer.pad) == (7, 3)


def test_it_goes_on_without_the_run_it_began_with(
    base: Path, labelling: Make, tmp_path: Path
) -> None:
    init = Path(shutil.copytree(base, tmp_path / "init"))
    settings = ("training.freeze=[embedding, blocks.0]", "training.layer_lr_decay=0.8")
    recipe = labelling(
        init, *settings, "training.ema_decay=0.5", "training.lr_multipliers={output: 3}"
    )
    train(recipe, tmp_path / "whole")
    cut_off(recipe, tmp_path / "run", 3)
    shutil.rmtree(init)
    resume(tmp_path / "run")
    assert (tmp_path / "run" / run_folder.WEIGHTS).read_bytes() == (
        tmp_path / "whole" / run_folder.WEIGHTS
    ).read_bytes()
    found, wanted = (run_folder.read(tmp_path / each).details for each in ("run", "whole"))
    assert found["init_report"] == wanted["init_report"]
    before, after = weights(base), weights(tmp_path / "run")
    for name, weight in before.items():
        ours = after[name.replace("decoder.", "encoder.")]
        still = ".embedding." in name or ".blocks.0." in name
        assert torch.equal(ours.view(torch.int32), weight.view(torch.int32)) == still, name


def test_a_run_does_not_replace_what_it_begins_with(base: Path, labelling: Make) -> None:
    before = (base / run_folder.MANIFEST).read_bytes()
    with pytest.raises(OutputError, match="is the run that init names"):
        train(labelling(base), base.parent / "nowhere" / ".." / base.name, overwrite=True)
    assert (base / run_folder.MANIFEST).read_bytes() == before


def test_what_a_run_began_with_cannot_be_changed_later(
    base: Path, labelling: Make, tmp_path: Path
) -> None:
    cut_off(labelling(base), tmp_path / "run", 2)
    for change in ("init=elsewhere", "adapter.rank=2"):
        with pytest.raises(ConfigError, match="cannot be changed when it is resumed"):
            resume(tmp_path / "run", [change])


# --- adapters


def test_an_adapter_is_saved_apart(base: Path, adapted: Path) -> None:
    own = weights(adapted)
    assert {name.rpartition(".")[2] for name in own} == {"a", "b", "weight", "bias"}
    assert {name for name in own if not name.endswith((".a", ".b"))} == {
        "output.weight",
        "output.bias",
    }
    assert len(own) == 2 * 2 * 2 + 2
    for place in (adapted / "checkpoints").glob("step-*"):
        stored = load_file(place / "state.safetensors")
        assert {n.removeprefix("model.") for n in stored if n.startswith("model.")} == own.keys()
    assert (adapted / run_folder.WEIGHTS).stat().st_size < (
        base / run_folder.WEIGHTS
    ).stat().st_size / 4
    assert any(each.any() for name, each in own.items() if name.endswith(".b"))


def independent(base: Path, adapted: Path) -> dict[str, Tensor]:
    """The weights that the equation gives, written out from the files."""
    spec = json.loads((adapted / run_folder.MANIFEST).read_text())["details"]["adapter"]["spec"]
    own = weights(adapted)
    found = {n.replace("decoder.", "encoder."): each for n, each in weights(base).items()}
    found |= {name: each for name, each in own.items() if name.startswith("output")}
    for name, a in own.items():
        if name.endswith(".a"):
            matrix = name.removesuffix("a") + "weight"
            b = own[name.removesuffix("a") + "b"]
            found[matrix] = found[matrix] + spec["alpha"] / spec["rank"] * b @ a
    return found


def test_loaded_it_says_what_the_equation_says(base: Path, adapted: Path) -> None:
    wanted = independent(base, adapted)
    whole = read_merged(adapted)
    assert whole.weights.keys() == wanted.keys()
    for name, weight in wanted.items():
        torch.testing.assert_close(whole.weights[name], weight, rtol=1e-6, atol=1e-6)
    model = ModelSpec.model_validate(whole.model).build(whole.vocabulary).eval()
    model.load_state_dict(wanted)
    labeller = regard.load(adapted)
    ids = torch.arange(5, 25).view(2, 10)
    token_mask = torch.ones_like(ids, dtype=torch.bool)
    torch.testing.assert_close(
        labeller.model(ids, token_mask), model(ids, token_mask), rtol=1e-5, atol=1e-5
    )


def test_merged_it_is_an_ordinary_run(adapted: Path, tmp_path: Path) -> None:
    merge(adapted, tmp_path / "merged")
    run = run_folder.read(tmp_path / "merged")
    assert "adapter" not in run.details
    assert run.details["merged"]["from"] == str(adapted)
    assert run.details["scores"] == run_folder.read(adapted).details["scores"]
    for name, weight in read_merged(adapted).weights.items():
        assert torch.equal(run.weights[name], weight)
    with pytest.raises(RunError, match="has no adapter, so there is nothing to merge"):
        merge(tmp_path / "merged", tmp_path / "again")
    with pytest.raises(regard.RegardError, match="merged: a model is there"):
        merge(adapted, tmp_path / "merged")


def test_it_moves_with_its_base(base: Path, adapted: Path, tmp_path: Path) -> None:
    for each in (base, adapted):
        shutil.copytree(each, tmp_path / each.name)
    regard.load(tmp_path / adapted.name)
    shutil.rmtree(tmp_path / base.name)
    with pytest.raises(RunError, match=f"{adapted.name}: an adapter, and its base .*{base.name}"):
        regard.load(tmp_path / adapted.name)


def test_another_base_is_refused(
    base: Path, labelling: Make, writing: Make, tmp_path: Path
) -> None:
    mine = Path(shutil.copytree(base, tmp_path / "mine"))
    recipe = labelling(mine, adapter=LORA)
    train(recipe, tmp_path / "run")
    cut_off(recipe, tmp_path / "unfinished", 2)
    train(writing("training.seed=2", "training.steps=1"), mine, overwrite=True)
    with pytest.raises(RunError, match=r"run: an adapter .* holds another model than the one"):
        regard.load(tmp_path / "run")
    with pytest.raises(RunError, match="mine: holds another model than the one"):
        resume(tmp_path / "unfinished")
    with pytest.raises(RunError, match="mine: holds another model than the one"):
        train(read_recipe(tmp_path / "run" / "recipe.yaml"), tmp_path / "again")


def test_an_adapter_goes_on_exactly(base: Path, labelling: Make, tmp_path: Path) -> None:
    recipe = labelling(base, adapter={**LORA, "dropout": 0.2})
    train(recipe, tmp_path / "whole")
    cut_off(recipe, tmp_path / "run", 3)
    resume(tmp_path / "run")
    assert (tmp_path / "run" / run_folder.WEIGHTS).read_bytes() == (
        tmp_path / "whole" / run_folder.WEIGHTS
    ).read_bytes()


def test_an_adapter_can_be_begun_with(adapted: Path, labelling: Make, tmp_path: Path) -> None:
    """The next one stands on the first and its base together."""
    train(labelling(adapted, "training.steps=1", adapter=LORA), tmp_path / "next")
    assert {name.rpartition(".")[2] for name in weights(tmp_path / "next")} == {"a", "b"}
    first = run_folder.read(tmp_path / "next").details["init_report"]["lines"]
    assert {line["status"] for line in first} == {"kept"}
    regard.load(tmp_path / "next")


def test_an_adapted_language_model_writes_as_when_merged(
    base: Path, writing: Make, tmp_path: Path
) -> None:
    recipe = writing(model=None, tokenizer=None, init=str(base), adapter=LORA)
    writer = train(recipe, tmp_path / "run")
    merge(tmp_path / "run", tmp_path / "merged")
    said = [
        each.generate("the film", max_tokens=8) for each in (writer, regard.load(tmp_path / "run"))
    ]
    assert said == [regard.load(tmp_path / "merged").generate("the film", max_tokens=8)] * 2
    assert regard.load(tmp_path / "run").model.decoder.blocks[0].attention.w_q.weight.is_leaf


@pytest.mark.parametrize("more", [{"adapter": LORA}, {"training.freeze": "[embedding]"}])
def test_the_proof_of_gradients_knows_who_is_not_to_learn(
    base: Path, labelling: Make, more: dict[str, Any]
) -> None:
    changes = [f"{key}={value}" for key, value in more.items() if key != "adapter"]
    settings = {"adapter": LORA} if "adapter" in more else {}
    case = make_context(labelling(base, *changes, **settings), silent)
    assert case.frozen
    assert not parameter_gradients.Spec().check(case).failed
