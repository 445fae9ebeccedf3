"""Summarization, from a recipe to text: training, truncated sources, the command line."""

import json
import random
from math import exp
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.data.ledger import Ledger
from regard.decoding.config import DecodingConfig
from regard.decoding.sampling import Sampling
from regard.errors import ConfigError, DataError
from regard.predictors.summarizer import Summarizer
from regard.training.checks.run import run_checks
from regard.training.checks.setup import make_context
from regard.training.distributed.world import World
from regard.training.recipe import Recipe, make_recipe
from regard.training.reporting.progress import silent
from regard.training.trainer import prepare_data, train

WORDS = ["red", "green", "blue", "big", "small", "old", "new", "fast", "slow", "round"]
MODEL = {"dim": 32, "heads": 2, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 32}
COMPRESSED = {"kind": "alternating", "pattern": [{"kind": "block-local", "size": 8}, "compressed"]}


def pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Return texts of several words with their first two words as summaries."""
    rng = random.Random(seed)
    texts = ([rng.choice(WORDS) for _ in range(rng.randint(3, 12))] for _ in range(count))
    return [(" ".join(text), " ".join(text[:2])) for text in texts]


def recipe_in(folder: Path, *changes: str, model: dict[str, Any] | None = None) -> Recipe:
    for split, count in (("train", 600), ("dev", 30), ("test", 30)):
        lines = [f"{text}\t{summary}\n" for text, summary in pairs(count, seed=count)]
        (folder / f"{split}.tsv").write_text("".join(lines))
    sources = {
        split: {"kind": "tsv", "path": f"{folder}/{split}.tsv", "languages": ["text", "summary"]}
        for split in ("train", "dev", "test")
    }
    content = {
        "task": "summarization",
        "data": {
            **sources,
            "prepared": str(folder / "prepared"),
            "filters": {"duplicates": "keep", "eval_overlap": "keep"},
        },
        "tokenizer": "word",
        "model": model or {"kind": "decoder-only", **MODEL},
        "training": {
            "steps": 160,
            "batch_tokens": 512,
            "label_smoothing": 0.0,
            "optimizer": {"learning_rate": 0.01},
            "evaluation": {"every": 80},
        },
    }
    return make_recipe(content, changes, "here")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("summaries")
    train(recipe_in(folder, "training.evaluation.metric=rouge_l"), folder / "run")
    return folder / "run"


@pytest.fixture
def summarizer(trained: Path) -> Summarizer:
    loaded = regard.load(trained)
    assert isinstance(loaded, Summarizer)
    return loaded


def test_summaries_of_unseen_texts_are_learned(summarizer: Summarizer) -> None:
    unseen = pairs(40, seed=7)
    outputs = summarizer.summarize([text for text, _ in unseen])
    assert sum(a == b for a, (_, b) in zip(outputs, unseen, strict=True)) >= 36


@pytest.mark.parametrize(
    "decoding",
    [DecodingConfig(beam=3), DecodingConfig(sampling=Sampling(temperature=1.0, seed=3))],
    ids=str,
)
def test_other_texts_of_the_batch_do_not_change_a_summary(
    summarizer: Summarizer, decoding: DecodingConfig
) -> None:
    texts = [text for text, _ in pairs(12, seed=9)]
    together = summarizer.summarize(texts, decoding=decoding)
    if decoding.sampling is None:
        assert together == [summarizer.summarize([text], decoding=decoding)[0] for text in texts]
    else:  # random numbers depend on the index of the text
        assert together[:5] == summarizer.summarize(texts[:5], decoding=decoding)


def test_scores_of_the_card_equal_those_of_the_model(trained: Path, summarizer: Summarizer) -> None:
    scores = json.loads((trained / "model.json").read_text())["details"]["scores"]
    test = pairs(30, seed=30)
    scored = summarizer.score([text for text, _ in test], [summary for _, summary in test])
    loss = -sum(s.total for s in scored) / sum(len(s.token_log_probs) for s in scored)
    assert scores["perplexity"] == pytest.approx(exp(loss), rel=1e-4)
    assert 80 < scores["rouge_l"] <= 100
    assert f"{scores['rouge_l']:.1f}" in (trained / "README.md").read_text()


def test_texts_beyond_the_context_are_refused(summarizer: Summarizer) -> None:
    with pytest.raises(DataError, match=r"text 2: the text has 31 tokens .* takes at most 28"):
        summarizer.summarize(["red", " ".join(["red"] * 31)])
    assert summarizer.summarize(["", "red old red"])[0] == ""
    with pytest.raises(DataError, match="there is no text"):
        summarizer.source_ids(" ", "here")
    with pytest.raises(ConfigError, match="max_tokens is 0; it must be a whole number from 1"):
        summarizer.summarize(["red"], max_tokens=0)
    with pytest.raises(DataError, match="2 texts and 1 summaries"):
        summarizer.score(["red", "old"], ["red"])


MODELS = [
    {"kind": "decoder-only", **MODEL, "attention": COMPRESSED},
    {"kind": "encoder-decoder", **MODEL},
    {"kind": "recurrent", "dim": 32, "max_length": 32},
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["kind"])
def test_sources_are_truncated_as_the_recipe_says(tmp_path: Path, model: dict[str, Any]) -> None:
    few_steps = "training={steps: 4, batch_tokens: 512}"
    recipe = recipe_in(tmp_path, "task={kind: summarization, source: 4}", few_steps, model=model)
    summarizer = train(recipe, tmp_path / "run")
    notices: list[str] = []
    outputs = summarizer.summarize(["red green blue big small", "red old"], notice=notices.append)
    assert notices == ["text 1: has 5 tokens, of which the first 4 are read, as in training."]
    assert outputs[0] == summarizer.summarize(["red green blue big"])[0]
    assert "first 4 tokens" in (tmp_path / "run" / "README.md").read_text()
    ledger = Ledger.from_json((tmp_path / "run" / "ledger.json").read_text())
    longer = sum(len(text.split()) > 4 for text, _ in pairs(600, seed=600))
    assert next(ledger.tallies())[2].truncated == longer


def test_pairs_beyond_the_context_are_dropped_and_counted(tmp_path: Path) -> None:
    """2 tokens of a summary, 4 special tokens and 12 tokens of a text are 18."""
    recipe = recipe_in(tmp_path, "model.max_length=16", "data.filters.max_dropped=1")
    prepared = prepare_data(recipe, World(), silent)
    dropped = next(prepared.ledger.tallies())[2].dropped["over the limit"]
    assert dropped.count == sum(len(text.split()) > 10 for text, _ in pairs(600, seed=600))
    assert dropped.first[0].detail.endswith("tokens, more than the model's 16")


def test_recipe_passes_every_check(tmp_path: Path) -> None:
    context = make_context(recipe_in(tmp_path, "model.attention=compressed"), silent)
    checks = list(run_checks(context, silent))
    assert [check.name for check in checks if check.failed] == []
    assert len(checks) > 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "task={kind: summarization, source: 30}",
            "task.source: 30 tokens .* model.max_length, 32",
        ),
        ("task=span-corruption", "data: the task span-corruption needs sources of type text"),
        ("data.directions=[text-summary]", "leave out directions"),
        (
            "model={kind: language-model}",
            "requires the capability seq2seq, and .* use .*decoder-only",
        ),
        ("data.train.split={column: 0, key: '('}", "no regular expression"),
        ("data.train.split={column: 0, from: 0.5, to: 0.5}", "there is nothing"),
    ],
)
def test_invalid_recipes_are_refused(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train(recipe_in(tmp_path, change), tmp_path / "run")


def test_summarize_evaluate_and_look(trained: Path, call: Any, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("red green blue\n\nold\nnew old big small\n")
    (tmp_path / "one.txt").write_text("fast slow\nround round red\n")
    lines = call("summarize", trained, tmp_path / "texts.txt")
    assert (lines.code, lines.out.count("\n")) == (0, 4)
    assert lines.err in ("", "Unfinished at the maximum length (--max-tokens): text 3.\n")
    assert lines.out.splitlines()[::3] == ["red green", "new old"]
    whole = call("summarize", trained, "--whole-file", tmp_path / "one.txt", tmp_path / "texts.txt")
    assert whole.out.splitlines() == ["fast slow", "red green"]
    typed = call("summarize", trained, "--beam", 3, "--scores", stdin=b"fast slow round\n")
    assert typed.out.startswith("1\t-0.")
    assert typed.out.endswith("\tfast slow\n")
    written = call("summarize", trained, tmp_path / "texts.txt", "-o", tmp_path / "out.txt")
    assert (written.code, (tmp_path / "out.txt").read_text()) == (0, lines.out)
    (tmp_path / "pairs.tsv").write_text("red green blue\tred green\nold big new\told big\n")
    evaluated = call("evaluate", trained, tmp_path / "pairs.tsv")
    assert "ROUGE-L" in evaluated.out
    assert "perplexity of a token" in evaluated.out
    page = tmp_path / "page.html"
    look = call("look", trained, "red green blue", "-o", page)
    assert look.code == 0
    assert page.exists()


def test_errors_are_one_sentence(trained: Path, call: Any, tmp_path: Path) -> None:
    def refused(*arguments: object, stdin: bytes = b"") -> str:
        result = call(*arguments, stdin=stdin)
        assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
        return str(result.err)

    long = b"red " * 40
    assert "there is no text to summarize" in refused("summarize", trained, stdin=b"\n \n")
    assert "text 2: the text has 40 tokens" in refused("summarize", trained, stdin=b"red\n" + long)
    assert "cannot be read" in refused("summarize", trained, tmp_path / "none.txt")
    assert "integer weights (--int8" in refused("summarize", trained, "--int8", stdin=b"red")
    assert "not a translator" in refused("translate", trained, stdin=b"red")
    assert "has no equivalent" in refused("export", trained, "--to", "onnx")
    (tmp_path / "pairs.tsv").write_text("red green blue\tred green\n")
    assert "cannot be compared yet" in refused("heads", trained, tmp_path / "pairs.tsv")
    assert "give texts and their summaries" in refused("score", trained, tmp_path / "pairs.tsv")
    assert "--to has no effect" in refused("evaluate", trained, tmp_path / "pairs.tsv", "--to", "x")


def test_a_decoder_only_model_translates(tmp_path: Path) -> None:
    """The task translation accepts the model; a long line is translated in segments."""
    changes = ["task=translation", "data.directions=[text-summary]"]
    few_steps = "training={steps: 4, batch_tokens: 512}"
    translator = train(recipe_in(tmp_path, *changes, few_steps), tmp_path / "run")
    assert len(translator.translate(["red green. " * 20, "", "old"])) == 3
    assert len(translator.candidates(["red green. " * 20])[0][0].segments) > 1
    assert len(translator.score(["red green"], ["red"])) == 1
