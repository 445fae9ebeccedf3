"""Every check passes for correct models of every task, and fails for the fault it detects."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.attention.base import Attention
from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.attention.multi_head import MultiHead
from regard.data.batches.pairs import Example, PairBatch, collate
from regard.data.batches.text import DocumentMaskedBatch
from regard.data.bundled import corpus
from regard.models.classifier import ClassifierModel
from regard.positions.base import AtEmbedding, InAttention
from regard.training.checks import setup
from regard.training.checks.properties import (
    causal_gradients,
    causal_logits,
    grad_accumulation,
    known_text,
    overfitting,
    parameter_gradients,
)
from regard.training.checks.properties.base import Check, all_properties
from regard.training.checks.run import run_checks
from regard.training.checks.setup import (
    MAX_TOKENS,
    CheckContext,
    join,
    make_context,
    model_inputs,
    single_row,
)
from regard.training.recipe import make_recipe
from regard.training.reporting.progress import silent

GRAMMAR = {"kind": "grammar", "train_size": 300, "dev_size": 20, "pronouns_size": 20}
SMALL = {"dim": 32, "heads": 2, "ffn_dim": 64, "layers": 1, "max_length": 128}
CAUSAL_ONLY = {
    "causal-logits",
    "causal-gradients",
    "cached-decoding",
}
DOCUMENT_MASK_ONLY = {"document-mask"}


def context_of(
    task: Any, data: dict[str, Any], model: dict[str, Any], folder: Path
) -> CheckContext:
    recipe = {
        "task": task,
        "data": {**data, "prepared": str(folder / "prepared")},
        "tokenizer": {"vocabulary": 300},
        "model": {**SMALL, **model},
        "training": {"steps": 1, "optimizer": {"kind": "adamw", "learning_rate": 0.01}},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "EXAMPLES", 16)
        patch.setattr(setup, "EXAMPLES_PER_BATCH", 2)
        return make_context(make_recipe(recipe, (), "a test"), silent)


@pytest.fixture(scope="module")
def translation(tmp_path_factory: pytest.TempPathFactory) -> CheckContext:
    data = {"train": GRAMMAR, "dev": {**GRAMMAR, "split": "dev"}}
    folder = tmp_path_factory.mktemp("translation")
    return context_of("translation", data, {"kind": "encoder-decoder"}, folder)


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> CheckContext:
    folder = tmp_path_factory.mktemp("text")
    lines = [f"{pair.english}\n" for pair in corpus(1, 300, 20, 20).train]
    (folder / "train.txt").write_text("".join(lines[20:]), "utf-8")
    (folder / "dev.txt").write_text("".join(lines[:20]), "utf-8")
    data = {
        part: {"kind": "text", "path": str(folder / f"{part}.txt")} for part in ("train", "dev")
    }
    return context_of("language-model", data, {"kind": "language-model"}, folder)


@pytest.fixture(scope="module")
def document_masked(tmp_path_factory: pytest.TempPathFactory) -> CheckContext:
    """Short documents, several in a row."""
    folder = tmp_path_factory.mktemp("apart")
    lines = [f"{pair.english}\n" for pair in corpus(1, 300, 20, 20).train]
    (folder / "train.txt").write_text("".join(lines[20:]), "utf-8")
    (folder / "dev.txt").write_text("".join(lines[:20]), "utf-8")
    data = {
        part: {"kind": "text", "path": str(folder / f"{part}.txt"), "documents": "line"}
        for part in ("train", "dev")
    }
    task = {"kind": "language-model", "document_mask": True}
    return context_of(task, data, {"kind": "language-model"}, folder)


@pytest.fixture(scope="module")
def classification(tmp_path_factory: pytest.TempPathFactory) -> CheckContext:
    folder = tmp_path_factory.mktemp("labeled")
    texts = [pair.english for pair in corpus(1, 300, 20, 20).train]
    lines = [f"{text}\t{'asks' if '?' in text else 'says'}\n" for text in texts]
    (folder / "texts.tsv").write_text("".join(lines), "utf-8")
    data = {"train": {"kind": "labeled", "path": str(folder / "texts.tsv")}, "dev_size": 15}
    return context_of("classification", data, {"kind": "classifier"}, folder)


@pytest.fixture(params=["translation", "language_model", "document_masked", "classification"])
def context(request: pytest.FixtureRequest) -> CheckContext:
    requested: CheckContext = request.getfixturevalue(request.param)
    return requested


def test_a_sound_recipe_passes_every_check_that_applies(context: CheckContext) -> None:
    before = {name: weight.clone() for name, weight in context.model.state_dict().items()}
    checks = dict(
        zip((spec.kind() for spec in all_properties()), run_checks(context, silent), strict=True)
    )
    assert [name for name, check in checks.items() if check.failed] == []
    skipped = {name for name, check in checks.items() if check.value is None}
    document_masks = isinstance(context.examples[0], DocumentMaskedBatch)
    assert skipped & DOCUMENT_MASK_ONLY == (set() if document_masks else DOCUMENT_MASK_ONLY)
    assert skipped - DOCUMENT_MASK_ONLY == (
        CAUSAL_ONLY if isinstance(context.model, ClassifierModel) else set()
    )
    for name, weight in context.model.state_dict().items():
        assert torch.equal(weight, before[name]), name


def broken(context: CheckContext, change: Callable[[nn.Module], None]) -> CheckContext:
    model = context.learner().model.eval()
    change(model)
    return replace(context, model=model)


def failing(context: CheckContext) -> set[str]:
    """Return the names of the failing checks, without the slow one."""
    quick = [spec for spec in all_properties() if not isinstance(spec, overfitting.Spec)]
    return {spec.kind() for spec in quick if spec.check(context).failed}


class Unmasked(Attention):
    """Ignores the mask."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, _: AttentionMask, __: InAttention) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class SeesPadding(Attention):
    """Applies the mask without the padding."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, _: InAttention
    ) -> Tensor:
        may_attend = replace(mask, token_mask=None).dense
        return F.scaled_dot_product_attention(q, k, v, attn_mask=may_attend)


class SeesOtherDocuments(Attention):
    """Applies the mask without the documents."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, _: InAttention
    ) -> Tensor:
        may_attend = replace(mask, documents=None).dense
        return F.scaled_dot_product_attention(q, k, v, attn_mask=may_attend)


class LeaksNextToken(nn.Module):
    """Adds a little of the next token, detached from the gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.01 * x.roll(-1, dims=1).detach()


def attend_with(attention: Attention, where: str) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        for name, module in model.named_modules():
            if isinstance(module, MultiHead) and where in name:
                module.attention = attention

    return change


def test_missing_causal_mask_is_detected_by_logits_and_gradients(
    translation: CheckContext, language_model: CheckContext
) -> None:
    for context in (translation, language_model):
        caught = failing(broken(context, attend_with(Unmasked(), "decoder.blocks.0.attention")))
        assert caught >= {"causal-logits", "causal-gradients"}


def test_a_detached_future_leak_is_detected_by_the_logits(
    language_model: CheckContext,
) -> None:
    def change(model: nn.Module) -> None:
        model.decoder.embedding.norm = LeaksNextToken()

    context = broken(language_model, change)
    assert causal_logits.Spec().check(context).failed
    assert not causal_gradients.Spec().check(context).failed


@pytest.mark.parametrize("where", ["encoder.blocks.0.attention", "cross"])
def test_attention_to_padding_is_detected(translation: CheckContext, where: str) -> None:
    caught = failing(broken(translation, attend_with(SeesPadding(), where)))
    assert caught == {"batch-independence", "grad-accumulation"}


def test_mean_pooling_over_padding_is_detected(classification: CheckContext) -> None:
    class PoolsPadding(ClassifierModel):
        def forward(self, ids: Tensor, token_mask: Tensor) -> Tensor:
            logits: Tensor = self.output(self.encoder(ids, token_mask).mean(1))
            return logits

    def change(model: nn.Module) -> None:
        model.__class__ = PoolsPadding

    assert "batch-independence" in failing(broken(classification, change))


def test_dependence_on_other_rows_is_detected(classification: CheckContext) -> None:
    def change(model: nn.Module) -> None:
        model.output.register_forward_hook(lambda _, __, logits: logits - logits.mean(0))

    assert "batch-independence" in failing(broken(classification, change))


def test_a_cache_with_wrong_values_is_detected(
    translation: CheckContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = KVCache.append
    append_zeros = lambda past, new: append(KVCache(past.keys, past.values * 0), new)  # noqa: E731
    monkeypatch.setattr(KVCache, "append", append_zeros)
    assert failing(translation) == {"cached-decoding"}


def test_a_cache_without_reordering_is_detected(
    language_model: CheckContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KVCache, "reorder", lambda memory, _: memory)
    assert failing(language_model) == {"cached-decoding"}


class Task:
    """A task with a loss only."""

    def __init__(self, loss: Callable[[nn.Module, Any], Tensor]) -> None:
        self.loss = loss


def test_a_mean_loss_is_detected(context: CheckContext) -> None:
    mean = Task(lambda model, batch: context.task.loss(model, batch) / batch.num_targets)
    assert failing(replace(context, task=mean)) == {"grad-accumulation"}


@pytest.mark.parametrize("task", ["translation", "language_model"])
def test_a_mean_of_means_is_detected(task: str, request: pytest.FixtureRequest) -> None:
    """Batches weighted by rows: wrong where rows differ in tokens."""
    context: CheckContext = request.getfixturevalue(task)
    a_row = context.batch(context.examples).num_targets / len(context.examples)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return (
            context.task.loss(model, batch) / batch.num_targets * a_row * len(tensors_2d(batch)[0])
        )

    assert failing(replace(context, task=Task(loss))) == {"grad-accumulation"}


def test_parameters_without_gradients_are_named(context: CheckContext) -> None:
    frozen = (
        "encoder.norm.gain" if isinstance(context.model, ClassifierModel) else "decoder.norm.gain"
    )

    def change(model: nn.Module) -> None:
        model.get_parameter(frozen).requires_grad_(False)
        model.unused = nn.Linear(2, 2)

    check = parameter_gradients.Spec().check(broken(context, change))
    assert check.failed
    assert check.value == 3
    for name in (frozen, "unused.weight", "unused.bias"):
        assert name in check.hint


def test_a_model_that_cannot_overfit_is_detected(
    classification: CheckContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overfitting, "MAX_UPDATES", 10)

    def change(model: nn.Module) -> None:
        model.encoder.register_forward_hook(lambda _, __, states: states * 0)

    assert overfitting.Spec().check(broken(classification, change)).failed


def test_attention_across_documents_is_detected(document_masked: CheckContext) -> None:
    def ignore_documents(model: nn.Module) -> None:
        for block in model.decoder.blocks:
            block.attention.attention = SeesOtherDocuments()

    def ignore_document_starts(model: nn.Module) -> None:
        position = model.decoder.embedding.position
        model.decoder.embedding.position = IgnoresDocumentStarts(position)

    assert failing(broken(document_masked, ignore_documents)) == DOCUMENT_MASK_ONLY
    assert failing(broken(document_masked, ignore_document_starts)) == DOCUMENT_MASK_ONLY


class IgnoresDocumentStarts(AtEmbedding):
    def __init__(self, position: nn.Module) -> None:
        super().__init__()
        self.position = position

    def forward(self, x: Tensor, positions: int | Tensor) -> Tensor:
        embedded: Tensor = self.position(x, positions if isinstance(positions, int) else 0)
        return embedded


def test_non_finite_outputs_fail_the_checks(translation: CheckContext) -> None:
    def change(model: nn.Module) -> None:
        model.decoder.norm.register_forward_hook(lambda _, __, states: states * float("nan"))

    context = broken(translation, change)
    assert overfitting.Spec().check(context).failed
    assert failing(context) >= {*CAUSAL_ONLY, "batch-independence"}


def test_unknown_text_is_detected(translation: CheckContext) -> None:
    assert known_text.Spec().check(replace(translation, unknown=0.06)).failed
    assert not known_text.Spec().check(replace(translation, unknown=0.04)).failed


@pytest.mark.parametrize(("value", "failed"), [(0.5, False), (0.6, True), (None, False)])
def test_a_check_fails_above_its_limit(value: float | None, failed: bool) -> None:
    assert Check("a property", "a number", value, 0.5, "fix it").failed == failed


def test_examples_have_many_lengths_within_the_limit(context: CheckContext) -> None:
    lengths = {
        max(len(tensor[0]) for tensor in tensors_2d(example)) for example in context.examples
    }
    assert len(lengths) > 3
    assert max(lengths) <= MAX_TOKENS
    assert all(
        tensor.all()
        for example in context.examples
        for tensor in tensors_2d(example)
        if tensor.dtype == torch.bool
    )


def tensors_2d(batch: Any) -> list[Tensor]:
    return [t for field in fields(batch) if (t := getattr(batch, field.name)).dim() == 2]


ids = st.lists(st.integers(1, 50), min_size=1, max_size=6)


@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=5))
def test_joining_single_rows_restores_the_batch(rows: list[tuple[Any, Any]]) -> None:
    batch = collate([Example(source, target) for source, target in rows], 0)
    again = join([single_row(batch, row, max_tokens=99) for row in range(len(rows))], pad_id=0)
    for field in fields(PairBatch):
        assert torch.equal(getattr(batch, field.name), getattr(again, field.name))


def test_a_batch_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="object"):
        model_inputs(object())


def test_checks_disable_training_only_behavior_of_experts(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Capacity, balance loss and jitter depend on the batch; the checks disable them."""
    data = {"train": GRAMMAR, "dev": {**GRAMMAR, "split": "dev"}}
    crowded = {
        "kind": "moe",
        "num_experts": 64,
        "capacity_factor": 0.5,
        "balance_loss": 1.0,
        "jitter": 0.5,
    }
    model = {"kind": "encoder-decoder", "feed_forward": crowded}
    context = context_of("translation", data, model, tmp_path_factory.mktemp("experts"))
    for spec in (grad_accumulation.Spec(), parameter_gradients.Spec()):
        check = spec.check(context)
        assert not check.failed, check
    for parameter in context.model.encoder.blocks[0].feed_forward.router.parameters():
        parameter.requires_grad_(False)
    assert parameter_gradients.Spec().check(context).value == 1
