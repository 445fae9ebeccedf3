"""Jobs, from text to a run folder that does what it was trained for."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import run_folder
from regard.config import kinds
from regard.errors import ConfigError, DataError, RunError
from regard.training.checkpoint import weights_at
from regard.training.recipe import Recipe, make_recipe
from regard.training.reporting import metrics
from regard.training.tasks.language_model import LanguageModeling
from regard.training.trainer import resume, train

SMALL = {"dim": 32, "heads": 2, "ffn_dim": 64, "layers": 1, "dropout": 0.0, "max_length": 48}
SAYING = "the quick brown fox jumps over the lazy dog and runs home again.\n"
GOOD = ["lovely", "brilliant", "charming", "superb", "delightful", "moving", "witty", "warm"]
BAD = ["dreadful", "boring", "clumsy", "awful", "tedious", "cold", "stupid", "dull"]
PLAIN = ["the", "film", "was", "and", "its", "plot", "seemed", "acting", "a", "very", "story"]

Made = Callable[..., Recipe]


@pytest.fixture
def writing(tmp_path: Path) -> Made:
    """A recipe for a language model of a text that says one thing again and again."""
    for part, times in (("train", 200), ("dev", 20)):
        (tmp_path / f"{part}.txt").write_text(SAYING * times)

    def make(*changes: str) -> Recipe:
        content = {
            "task": "language-model",
            "data": {
                "train": {"kind": "text", "path": str(tmp_path / "train.txt")},
                "dev": {"kind": "text", "path": str(tmp_path / "dev.txt")},
                "prepared": str(tmp_path / "prepared"),
            },
            "tokenizer": {"kind": "word", "vocabulary": 320, "spaces": "keep"},
            "model": {"kind": "language-model", **SMALL},
            "training": {
                "steps": 80,
                "batch_tokens": 480,
                "optimizer": {"learning_rate": 0.01},
                "evaluation": {"every": 40},
            },
        }
        return make_recipe(content, changes, "recipe")

    return make


@pytest.fixture
def labelling(tmp_path: Path) -> Made:
    """A recipe for a classifier of texts that a few words give away."""
    chance = random.Random(1)

    def text(words: list[str]) -> str:
        drawn = [*chance.choices(words, k=2), *chance.choices(PLAIN, k=5)]
        return " ".join(chance.sample(drawn, len(drawn)))

    lines = [
        f"{text(words)}\t{label}\n"
        for _ in range(300)
        for label, words in (("good", GOOD), ("bad", BAD))
    ]
    (tmp_path / "reviews.tsv").write_text("".join(lines))

    def make(*changes: str) -> Recipe:
        content = {
            "task": "classification",
            "data": {
                "train": {"kind": "labeled", "path": str(tmp_path / "reviews.tsv")},
                "dev_size": 30,
                "prepared": str(tmp_path / "prepared"),
            },
            "tokenizer": {"kind": "word", "vocabulary": 320},
            "model": {"kind": "classifier", **SMALL},
            "training": {
                "steps": 60,
                "batch_tokens": 300,
                "optimizer": {"learning_rate": 0.01},
                "evaluation": {"every": 30},
            },
        }
        return make_recipe(content, changes, "recipe")

    return make


def test_every_job_is_tested_here() -> None:
    own = ["classification", "language-model", "translation"]
    others = [
        "masked-lm",
        "span-corruption",
        "summarization",
    ]  # see test_corruption, cli/test_summarize
    assert kinds("regard.training.tasks") == sorted([*own, *others])


def test_a_language_model_learns_to_go_on(writing: Made, tmp_path: Path) -> None:
    made = train(writing(), tmp_path / "run")
    losses = [each["loss"] for each in metrics.read(tmp_path / "run") if "loss" in each]
    assert len(losses) == 80
    assert sum(losses[-5:]) < sum(losses[:5]) / 2
    writer = regard.load(tmp_path / "run")
    assert writer.generate("the quick brown", max_tokens=8).startswith(" fox jumps over the lazy")
    assert writer.generate("the quick", max_tokens=8) == made.generate("the quick", max_tokens=8)
    run = run_folder.read(tmp_path / "run")
    assert run.task == "language-model"
    scores = run.details["scores"]
    assert scores["accuracy"] > 0.9
    assert scores["perplexity"] < 2
    card = (tmp_path / "run" / "README.md").read_text()
    assert card.startswith("# A language model")
    assert "perplexity" in card


def test_the_card_says_what_evaluating_finds(writing: Made, tmp_path: Path) -> None:
    train(writing("training.steps=2"), tmp_path / "run")
    scores = run_folder.read(tmp_path / "run").details["scores"]
    writer = regard.load(tmp_path / "run")
    found = writer.perplexity((tmp_path / "dev.txt").read_text()).to_plain()
    assert scores == pytest.approx(found)
    assert (scores["context"], scores["stride"]) == (48, 48)
    assert scores["words"] == len((SAYING * 20).split()) - 1  # all but the first are foretold
    card = (tmp_path / "run" / "README.md").read_text()
    assert "bits per character" in card
    assert "Context of 48 tokens, stride of 48" in card


def test_documents_apart(writing: Made, tmp_path: Path) -> None:
    """Each line a document: learned, continued and judged as if it stood alone."""
    changes = [f"data.{part}.documents=line" for part in ("train", "dev")]
    changes += ["data.filters.eval_overlap=keep", "task.document_mask=true"]  # all lines are alike
    train(writing(*changes), tmp_path / "run")
    run = run_folder.read(tmp_path / "run")
    writer = regard.load(tmp_path / "run")
    end = writer.tokenizer.end
    assert run.details["bos"] == writer.bos == [end]
    assert writer.encode("the quick")[0] == end
    line = SAYING.rstrip()
    assert writer.generate("", max_tokens=30) == line
    assert writer.generate("the quick brown", max_tokens=30) == line.removeprefix("the quick brown")
    scores = run.details["scores"]
    assert scores["documents"] == 20
    assert scores["windows"] == 20
    assert scores["words"] == len(line.split()) * 20
    assert scores["accuracy"] > 0.95
    alone = writer.perplexity(line)
    ends = writer.score([line])[0].token_log_probs[-1]
    total = alone.nats * 20 - ends * 19  # between documents, the end is foretold too
    assert scores["nats"] == pytest.approx(total, abs=1e-3)


def test_a_prompt_that_leaves_no_room_is_refused(writing: Made, tmp_path: Path) -> None:
    writer = train(writing("training.steps=1"), tmp_path / "run")
    with pytest.raises(DataError, match="this model takes 48 in all"):
        writer.generate("the quick", max_tokens=47)
    assert isinstance(writer.generate("", max_tokens=3), str)


def test_a_classifier_learns_to_tell_apart(labelling: Made, tmp_path: Path) -> None:
    train(labelling(), tmp_path / "run")
    labeller = regard.load(tmp_path / "run")
    assert labeller.labels == ("bad", "good")
    good, bad = labeller.classify(["the film was superb and witty", "a boring story and dull"])
    assert (good.label, bad.label) == ("good", "bad")
    assert min(good.probability, bad.probability) > 0.7
    run = run_folder.read(tmp_path / "run")
    assert run.details["scores"]["accuracy"] > 0.95
    assert run.model["classes"] == 2
    assert "100.0%" in (tmp_path / "run" / "README.md").read_text()
    for name in ("loss.svg", "accuracy.svg", "metrics.jsonl", "recipe.yaml", "ledger.json"):
        assert (tmp_path / "run" / name).is_file()
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_a_translator_learns_something(tiny: Made, tmp_path: Path) -> None:
    train(tiny("training.steps=30", "training.optimizer.learning_rate=0.01"), tmp_path / "run")
    told = metrics.read(tmp_path / "run")
    losses = [each["loss"] for each in told if "loss" in each]
    assert losses[-1] < losses[0] - 1
    looks = [each["scores"] for each in told if "scores" in each]
    assert [sorted(scores) for scores in looks] == [["bleu", "chrf", "loss", "perplexity"]] * 2
    assert looks[1]["loss"] < looks[0]["loss"]
    translator = regard.load(tmp_path / "run")
    assert len(translator.translate(["le chat dort"], to="en")) == 1


def test_dev_loss_alone_costs_no_decoding(tiny: Made, tmp_path: Path) -> None:
    train(
        tiny("training.steps=2", "training.evaluation={every: 1, metric: loss}"), tmp_path / "run"
    )
    looks = [each for each in metrics.read(tmp_path / "run") if "scores" in each]
    assert [list(look["scores"]) for look in looks] == [["loss", "perplexity"]] * 2


def test_the_dev_loss_is_the_loss_without_smoothing_however_it_is_batched(
    tiny: Made, tmp_path: Path
) -> None:
    found = []
    for name, tokens in (("one", 600), ("two", 4096)):
        changes = (f"training.batch_tokens={tokens}", "training.optimizer.learning_rate=1e-12")
        train(tiny("training.steps=1", *changes), tmp_path / name)
        (look,) = (each for each in metrics.read(tmp_path / name) if "scores" in each)
        found.append(look["scores"]["loss"])
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "change", "complaint"),
    [
        ("writing", "training.evaluation.metric=bleu", "bleu is not measured in language-model"),
        (
            "labelling",
            "training.evaluation.metric=chrf",
            "one of accuracy, calibration_error, loss, macro_f1, micro_f1",
        ),
        ("tiny", "training.evaluation.metric=rouge", "evaluation.metric: rouge is not measured"),
        (
            "tiny",
            "training.evaluation.metric=accuracy",
            "choose one of bleu, chrf, exact_match, loss, perplexity",
        ),
        ("writing", "task=translation", "needs sources of type pair, and these are of type text"),
        ("labelling", "task=language-model", "type text, and these are of type labeled"),
        ("tiny", "task=classification", "type labeled, and these are of type pair"),
        (
            "writing",
            "model.kind=classifier",
            "requires the capability causal-lm, and a classifier does not",
        ),
        (
            "labelling",
            "model.kind=encoder",
            "requires the capability sequence-classification, and a",
        ),
        (
            "tiny",
            "model.kind=language-model",
            "requires the capability seq2seq, and a language-model does not",
        ),
        ("writing", "training.batch_tokens=20", "cannot hold a window of 48"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, change: str, complaint: str
) -> None:
    make: Any = request.getfixturevalue(kind)
    with pytest.raises(ConfigError, match=complaint):
        train(make(change), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_label_is_none(labelling: Made, tmp_path: Path) -> None:
    lines = [f"text number {n}\tgood\n" for n in range(50)]
    (tmp_path / "reviews.tsv").write_text("".join(lines))
    with pytest.raises(DataError, match="only one label, 'good'; a classifier needs at least two"):
        train(labelling(), tmp_path / "run")


@pytest.mark.parametrize(("keep", "step"), [("best", 4), ("last", 6)])
def test_the_run_ends_with_the_weights_asked_for(
    writing: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str, step: int
) -> None:
    scores = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr(
        LanguageModeling, "evaluate", lambda *_: {"loss": next(scores), "accuracy": 0.0}
    )
    looks = f"training.evaluation={{every: 2, patience: 1, select: {keep}}}"
    train(writing("training.steps=100", looks), tmp_path / "run")
    wanted = weights_at(tmp_path / "run", step)
    found = run_folder.read(tmp_path / "run").weights
    assert found.keys() == wanted.keys()
    assert all(bool((found[name] == wanted[name]).all()) for name in wanted)
    other = weights_at(tmp_path / "run", 10 - step)
    assert any(bool((found[name] != other[name]).any()) for name in wanted)
    with pytest.raises(
        RunError, match=r"finished at step 6 \(no better.*training.evaluation.patience=…"
    ):
        resume(tmp_path / "run")
