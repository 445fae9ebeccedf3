"""Masked language modeling and span corruption: training, resuming, evaluation and refusals."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import run_folder
from regard.data.batches.base import IGNORE_INDEX
from regard.data.batches.corrupted import MaskedBatch
from regard.data.batches.pairs import PairBatch
from regard.data.sampling.sampler import DataCursor
from regard.data.store.prepare import prepare
from regard.errors import ConfigError, Interrupted
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.span_filler import SpanFiller
from regard.training import trainer as train_module
from regard.training.checks import setup
from regard.training.checks.properties.base import all_properties
from regard.training.checks.run import run_checks
from regard.training.checks.setup import make_context
from regard.training.distributed.world import World
from regard.training.learner import Learner
from regard.training.recipe import Recipe, make_recipe
from regard.training.reporting.progress import silent
from regard.training.thread_parallel import TOKENS_PER_WORKER
from regard.training.trainer import resume, train

from ..test_resume import history

COUNT = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
SMALL = {"dim": 32, "heads": 2, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 24}
MODELS = {
    "masked-lm": {"kind": "masked-lm"},
    "span-corruption": {"kind": "encoder-decoder", "layers": 1},
}
KINDS = tuple(MODELS)

Make = Callable[..., Recipe]


@pytest.fixture(scope="module")
def make_fill_recipe(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A recipe for a task on lines of consecutive numbers."""
    folder = tmp_path_factory.mktemp("counting")
    lines = [
        " ".join(COUNT[(first + n) % 10] for n in range(length)) + "."
        for length in range(5, 11)
        for first in range(10)
    ]
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in lines * 5))
    (folder / "long.txt").write_text(" ".join(lines) + "\n")

    def make(kind: str, *changes: str) -> Recipe:
        source = {"kind": "text", "path": str(folder / "lines.txt"), "documents": "line"}
        content = {
            "task": kind,
            "data": {
                "train": [source, {**source, "path": str(folder / "long.txt")}],
                "dev": source,
                "filters": {"eval_overlap": "keep"},
                "prepared": str(folder / "prepared"),
            },
            "tokenizer": {"kind": "word", "vocabulary": 400},
            "model": {**SMALL, **MODELS[kind]},
            "training": {
                "steps": 20,
                "batch_tokens": 600,
                "label_smoothing": 0.0,
                "checkpoint_every": 5,
                "evaluation": {"every": 10},
            },
        }
        return make_recipe(content, changes, "recipe")

    return make


LEARNING = (
    "training.steps=200",
    "training.batch_tokens=400",
    "training.optimizer={kind: adamw, learning_rate: 0.01}",
    "training.evaluation.every=200",
)


def test_a_masked_lm_learns_and_fills_masks(make_fill_recipe: Make, tmp_path: Path) -> None:
    train(make_fill_recipe("masked-lm", *LEARNING), tmp_path / "run")
    scores = run_folder.read(tmp_path / "run").details["scores"]
    assert scores["accuracy"] > 0.8
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    filler = regard.load(tmp_path / "run")
    assert isinstance(filler, MaskFiller)
    (blank,) = filler.fill("three four ___ six seven eight.", top=3)
    assert len(blank) == 3
    assert blank[0].text == "five"
    assert blank[0].probability > 0.5 > blank[1].probability >= blank[2].probability
    first, second = filler.fill("two [MASK] four five six <mask> eight nine.")
    assert (first[0].text, second[0].text) == ("three", "seven")
    right, wrong = filler.score(["two three four five six.", "two three nine five six."])
    assert right.total > wrong.total
    assert len(right.token_log_probs) == 6


def test_a_span_corruption_model_fills_several_words(
    make_fill_recipe: Make, tmp_path: Path
) -> None:
    train(
        make_fill_recipe(
            "span-corruption", "task.corruption_rate=0.3", *LEARNING, "training.steps=250"
        ),
        tmp_path / "run",
    )
    filler = regard.load(tmp_path / "run")
    assert isinstance(filler, SpanFiller)
    (blank,) = filler.fill("one two [MASK] six seven eight.", top=2)
    assert blank[0].text == "three four five"
    assert blank[0].probability > blank[1].probability


class StopAfter:
    """An interruption that is requested after some steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    @property
    def requested(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("masked-lm", ["training.grad_accumulation=2", "task.whole_words=true"]),
        ("masked-lm", ["training.batch_tokens=3200"]),
        ("span-corruption", ["training.batch_tokens=1600", "task.whole_words=true"]),
    ],
    ids=["grad accumulation, whole words", "threaded backward", "spans"],
)
def test_a_resumed_run_is_bit_identical(
    make_fill_recipe: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    changes: list[str],
) -> None:
    recipe, run = make_fill_recipe(kind, "training.steps=5", *changes), tmp_path / "run"
    train(recipe, tmp_path / "whole")
    monkeypatch.setattr(train_module, "catch_interrupts", lambda: nullcontext(StopAfter(2)))
    with pytest.raises(Interrupted, match="stopped at step 3"):
        train(recipe, run)
    monkeypatch.undo()
    resume(run)
    for name in ("model.safetensors", "tokenizer.json"):
        resumed, whole = (run_folder.path_of(each, name) for each in (run, tmp_path / "whole"))
        assert resumed.read_bytes() == whole.read_bytes()
    assert history(run) == history(tmp_path / "whole")


def task_of(recipe: Recipe) -> Any:
    prepared = prepare(
        recipe.data,
        recipe.tokenizer,
        recipe.model.max_length,
        special_tokens=recipe.task.special_tokens,
    )
    return recipe.task.bind(recipe, prepared)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_respect_max_length_and_shards_cover_all_targets(
    make_fill_recipe: Make, kind: str
) -> None:
    task = task_of(make_fill_recipe(kind, "training.batch_tokens=200"))
    batches = task.batches(DataCursor())
    for _ in range(30):
        batch, _ = next(batches)
        widths = [tensor.size(1) for tensor in vars(batch).values()]
        assert max(widths) <= 24
        for size in (2, 3, 500):
            shares = [batch.shard(rank, size) for rank in range(size)]
            assert sum(share.num_targets for share in shares) == batch.num_targets
        if isinstance(batch, MaskedBatch):
            assert batch.num_tokens == int(batch.token_mask.sum()) >= batch.num_targets
            assert (batch.labels[~batch.masked_positions] == IGNORE_INDEX).all()
        else:
            assert isinstance(batch, PairBatch)


@pytest.mark.parametrize("kind", KINDS)
def test_dev_batches_do_not_depend_on_the_seed(make_fill_recipe: Make, kind: str) -> None:
    recipe = make_fill_recipe(kind)
    task = task_of(recipe)
    torch.manual_seed(0)
    model = recipe.model.build(len(task.prepared.tokenizer)).eval()
    scores = task.evaluate(model, World())
    assert task.evaluate(model, World()) == scores
    assert task_of(make_fill_recipe(kind, "training.seed=5")).evaluate(model, World()) == scores
    larger_batches = task_of(make_fill_recipe(kind, "training.batch_tokens=5000")).evaluate(
        model, World()
    )
    assert larger_batches["loss"] == pytest.approx(scores["loss"], rel=1e-5)


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_only_rounding(make_fill_recipe: Make, kind: str) -> None:
    recipe = make_fill_recipe(kind, "training.batch_tokens=3000")
    task = task_of(recipe)
    batch, _ = next(task.batches(DataCursor()))
    workers = 1 + (batch.num_tokens >= 2 * TOKENS_PER_WORKER)
    torch.manual_seed(0)
    model = recipe.model.build(len(task.prepared.tokenizer))
    learner = Learner(model, task.loss, recipe.training, World())
    learner.threaded.backward(batch, max(workers, 2), 1.0)
    split_gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    task.loss(model, batch).backward()
    for parameter, split_gradient in zip(model.parameters(), split_gradients, strict=True):
        torch.testing.assert_close(parameter.grad, split_gradient, atol=1e-4, rtol=1e-3)
    if kind == "masked-lm":  # few targets, many tokens
        assert workers == 2 > batch.num_targets // TOKENS_PER_WORKER


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_recipe_passes_every_check_that_applies(
    make_fill_recipe: Make, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "EXAMPLES", 16)
    rate = "training.optimizer={kind: adamw, learning_rate: 0.01}"
    context = make_context(make_fill_recipe(kind, rate), silent)
    checks = dict(
        zip((spec.kind() for spec in all_properties()), run_checks(context, silent), strict=True)
    )
    assert [name for name, check in checks.items() if check.failed] == []
    skipped = {name for name, check in checks.items() if check.value is None}
    causal_only = {"causal-logits", "causal-gradients", "cached-decoding"}
    assert skipped == {"document-mask", *(causal_only if kind == "masked-lm" else ())}


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (
            "masked-lm",
            "model.kind=encoder-decoder",
            "capability masked-lm, and a encoder-decoder does not have it; use masked-lm",
        ),
        (
            "span-corruption",
            "model.kind=masked-lm",
            "requires the capability seq2seq, and a masked-lm does not",
        ),
        (
            "masked-lm",
            "task.mask_token_rate=0.95",
            "mask_token_rate 0.95 and random_token_rate 0.1 add up",
        ),
        ("masked-lm", "task.mask_rate=1", "task.mask_rate|less than 1"),
        ("masked-lm", "model.max_length=2", "2 tokens leave no room for text"),
        ("span-corruption", "model.max_length=4", "4 tokens leave no room for a text"),
        ("span-corruption", "task.sentinels=2", r"task.sentinels: texts of 1,000 tokens need 51"),
        ("masked-lm", "training.evaluation.metric=bleu", "bleu is not measured in masked"),
        ("masked-lm", "tokenizer.vocabulary=300", ""),
    ],
)
def test_incompatible_settings_are_refused(
    make_fill_recipe: Make, tmp_path: Path, kind: str, change: str, message: str
) -> None:
    changes = [change] + ["model.max_length=1000"] * ("sentinels" in change)
    if not message:
        train(make_fill_recipe(kind, *changes, "training.steps=1"), tmp_path / "run")
        return
    with pytest.raises(ConfigError, match=message):
        train(make_fill_recipe(kind, *changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()
