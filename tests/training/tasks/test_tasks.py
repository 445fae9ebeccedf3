"""Tasks, from text to a run folder that can be loaded and used."""

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
SENTENCE = "the quick brown fox jumps over the lazy dog and runs home again.\n"
GOOD = ["lovely", "brilliant", "charming", "superb", "delightful", "moving", "witty", "warm"]
BAD = ["dreadful", "boring", "clumsy", "awful", "tedious", "cold", "stupid", "dull"]
PLAIN = ["the", "film", "was", "and", "its", "plot", "seemed", "acting", "a", "very", "story"]

MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def language_model_recipe(tmp_path: Path) -> MakeRecipe:
    """Make a recipe for a language model of one sentence, repeated."""
    for part, times in (("train", 200), ("dev", 20)):
        (tmp_path / f"{part}.txt").write_text(SENTENCE * times)

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
def classifier_recipe(tmp_path: Path) -> MakeRecipe:
    """Make a recipe for a classifier of texts whose label depends on a few words."""
    rng = random.Random(1)

    def text(words: list[str]) -> str:
        words_of_text = [*rng.choices(words, k=2), *rng.choices(PLAIN, k=5)]
        return " ".join(rng.sample(words_of_text, len(words_of_text)))

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


def test_every_task_is_tested() -> None:
    own = ["classification", "language-model", "translation"]
    others = [
        "masked-lm",
        "span-corruption",
        "summarization",
    ]  # see test_corruption, cli/test_summarize
    assert kinds("regard.training.tasks") == sorted([*own, *others])


def test_a_language_model_learns_to_continue_text(
    language_model_recipe: MakeRecipe, tmp_path: Path
) -> None:
    trained = train(language_model_recipe(), tmp_path / "run")
    losses = [event["loss"] for event in metrics.read(tmp_path / "run") if "loss" in event]
    assert len(losses) == 80
    assert sum(losses[-5:]) < sum(losses[:5]) / 2
    generator = regard.load(tmp_path / "run")
    assert generator.generate("the quick brown", max_tokens=8).startswith(
        " fox jumps over the lazy"
    )
    assert generator.generate("the quick", max_tokens=8) == trained.generate(
        "the quick", max_tokens=8
    )
    run = run_folder.read(tmp_path / "run")
    assert run.task == "language-model"
    scores = run.details["scores"]
    assert scores["accuracy"] > 0.9
    assert scores["perplexity"] < 2
    card = (tmp_path / "run" / "README.md").read_text()
    assert card.startswith("# A language model")
    assert "perplexity" in card


def test_final_scores_match_the_perplexity_of_the_predictor(
    language_model_recipe: MakeRecipe, tmp_path: Path
) -> None:
    train(language_model_recipe("training.steps=2"), tmp_path / "run")
    scores = run_folder.read(tmp_path / "run").details["scores"]
    generator = regard.load(tmp_path / "run")
    perplexity = generator.perplexity((tmp_path / "dev.txt").read_text()).to_plain()
    assert scores == pytest.approx(perplexity)
    assert (scores["context"], scores["stride"]) == (48, 48)
    assert scores["words"] == len((SENTENCE * 20).split()) - 1  # all but the first are predicted
    card = (tmp_path / "run" / "README.md").read_text()
    assert "bits per character" in card
    assert "Context of 48 tokens, stride of 48" in card


def test_document_mask_trains_and_evaluates_documents_independently(
    language_model_recipe: MakeRecipe, tmp_path: Path
) -> None:
    """Each line is a document: trained, continued and evaluated without the others."""
    changes = [f"data.{part}.documents=line" for part in ("train", "dev")]
    changes += ["data.filters.eval_overlap=keep", "task.document_mask=true"]  # all lines are equal
    train(language_model_recipe(*changes), tmp_path / "run")
    run = run_folder.read(tmp_path / "run")
    generator = regard.load(tmp_path / "run")
    end = generator.tokenizer.end
    assert run.details["bos"] == generator.bos == [end]
    assert generator.encode("the quick")[0] == end
    line = SENTENCE.rstrip()
    assert generator.generate("", max_tokens=30) == line
    assert generator.generate("the quick brown", max_tokens=30) == line.removeprefix(
        "the quick brown"
    )
    scores = run.details["scores"]
    assert scores["documents"] == 20
    assert scores["windows"] == 20
    assert scores["words"] == len(line.split()) * 20
    assert scores["accuracy"] > 0.95
    alone = generator.perplexity(line)
    ends = generator.score([line])[0].token_log_probs[-1]
    total = alone.nats * 20 - ends * 19  # between documents, the end is predicted too
    assert scores["nats"] == pytest.approx(total, abs=1e-3)


def test_a_prompt_beyond_max_length_is_refused(
    language_model_recipe: MakeRecipe, tmp_path: Path
) -> None:
    generator = train(language_model_recipe("training.steps=1"), tmp_path / "run")
    with pytest.raises(DataError, match="this model takes 48 in all"):
        generator.generate("the quick", max_tokens=47)
    assert isinstance(generator.generate("", max_tokens=3), str)


def test_a_classifier_learns_its_labels(classifier_recipe: MakeRecipe, tmp_path: Path) -> None:
    train(classifier_recipe(), tmp_path / "run")
    classifier = regard.load(tmp_path / "run")
    assert classifier.labels == ("bad", "good")
    good, bad = classifier.classify(["the film was superb and witty", "a boring story and dull"])
    assert (good.label, bad.label) == ("good", "bad")
    assert min(good.probability, bad.probability) > 0.7
    run = run_folder.read(tmp_path / "run")
    assert run.details["scores"]["accuracy"] > 0.95
    assert run.model["classes"] == 2
    assert "100.0%" in (tmp_path / "run" / "README.md").read_text()
    for name in ("loss.svg", "accuracy.svg", "metrics.jsonl", "recipe.yaml", "ledger.json"):
        assert (tmp_path / "run" / name).is_file()
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_a_translator_learns_and_is_evaluated(tiny: MakeRecipe, tmp_path: Path) -> None:
    changes = ("training.steps=30", "training.optimizer.learning_rate=0.01", "task.beam=2")
    train(tiny(*changes), tmp_path / "run")
    events = metrics.read(tmp_path / "run")
    losses = [event["loss"] for event in events if "loss" in event]
    assert losses[-1] < losses[0] - 1
    evaluations = [event["scores"] for event in events if "scores" in event]
    assert [sorted(scores) for scores in evaluations] == [
        ["bleu", "chrf", "loss", "perplexity"]
    ] * 2
    assert evaluations[1]["loss"] < evaluations[0]["loss"]
    translator = regard.load(tmp_path / "run")
    assert len(translator.translate(["le chat dort"], to="en")) == 1
    assert translator.beam == 2


def test_the_loss_metric_skips_decoding(tiny: MakeRecipe, tmp_path: Path) -> None:
    train(
        tiny("training.steps=2", "training.evaluation={every: 1, metric: loss}"), tmp_path / "run"
    )
    evaluations = [event for event in metrics.read(tmp_path / "run") if "scores" in event]
    assert [list(evaluation["scores"]) for evaluation in evaluations] == [
        ["loss", "perplexity"]
    ] * 2


def test_dev_loss_does_not_depend_on_batch_size(tiny: MakeRecipe, tmp_path: Path) -> None:
    losses = []
    for name, tokens in (("one", 600), ("two", 4096)):
        changes = (f"training.batch_tokens={tokens}", "training.optimizer.learning_rate=1e-12")
        train(tiny("training.steps=1", *changes), tmp_path / name)
        (evaluation,) = (event for event in metrics.read(tmp_path / name) if "scores" in event)
        losses.append(evaluation["scores"]["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (
            "language_model_recipe",
            "training.evaluation.metric=bleu",
            "bleu is not measured in language-model",
        ),
        (
            "classifier_recipe",
            "training.evaluation.metric=chrf",
            "one of accuracy, calibration_error, loss, macro_f1, micro_f1",
        ),
        ("tiny", "training.evaluation.metric=rouge", "evaluation.metric: rouge is not measured"),
        (
            "tiny",
            "training.evaluation.metric=accuracy",
            "choose one of bleu, chrf, exact_match, loss, perplexity",
        ),
        (
            "language_model_recipe",
            "task=translation",
            "needs sources of type pair, and these are of type text",
        ),
        ("classifier_recipe", "task=language-model", "type text, and these are of type labeled"),
        ("tiny", "task=classification", "type labeled, and these are of type pair"),
        (
            "language_model_recipe",
            "model.kind=classifier",
            "requires the capability causal-lm, and a classifier does not",
        ),
        (
            "classifier_recipe",
            "model.kind=encoder",
            "requires the capability sequence-classification, and a",
        ),
        (
            "tiny",
            "model.kind=language-model",
            "requires the capability seq2seq, and a language-model does not",
        ),
        ("language_model_recipe", "training.batch_tokens=20", "cannot hold a window of 48"),
    ],
)
def test_incompatible_settings_are_refused(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, change: str, message: str
) -> None:
    make: Any = request.getfixturevalue(kind)
    with pytest.raises(ConfigError, match=message):
        train(make(change), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_single_label_is_refused(classifier_recipe: MakeRecipe, tmp_path: Path) -> None:
    lines = [f"text number {n}\tgood\n" for n in range(50)]
    (tmp_path / "reviews.tsv").write_text("".join(lines))
    with pytest.raises(DataError, match="only one label, 'good'; a classifier needs at least two"):
        train(classifier_recipe(), tmp_path / "run")


@pytest.mark.parametrize(("select", "step"), [("best", 4), ("last", 6)])
def test_select_chooses_the_final_weights(
    language_model_recipe: MakeRecipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    select: str,
    step: int,
) -> None:
    scores = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr(
        LanguageModeling, "evaluate", lambda *_: {"loss": next(scores), "accuracy": 0.0}
    )
    evaluation = f"training.evaluation={{every: 2, patience: 1, select: {select}}}"
    train(language_model_recipe("training.steps=100", evaluation), tmp_path / "run")
    expected = weights_at(tmp_path / "run", step)
    weights = run_folder.read(tmp_path / "run").weights
    assert weights.keys() == expected.keys()
    assert all(bool((weights[name] == expected[name]).all()) for name in expected)
    rejected = weights_at(tmp_path / "run", 10 - step)
    assert any(bool((weights[name] != rejected[name]).any()) for name in expected)
    with pytest.raises(
        RunError, match=r"finished at step 6 \(no better.*training.evaluation.patience=…"
    ):
        resume(tmp_path / "run")
