"""The proofs hold for sound models of every job, and each catches what it is there to catch."""

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
from regard.training.checks import properties, setup
from regard.training.checks.properties import PROOFS, Proof, prove
from regard.training.checks.setup import WIDEST, Case, alone, call_of, join, make_case
from regard.training.recipe import make_recipe
from regard.training.reporting.progress import silent

GRAMMAR = {"kind": "grammar", "train_size": 300, "dev_size": 20, "pronouns_size": 20}
SMALL = {"dim": 32, "heads": 2, "ffn_dim": 64, "layers": 1, "max_length": 128}
WRITING_ONLY = {
    "no_look_ahead_in_logits",
    "no_look_ahead_in_gradients",
    "steps_equal_the_whole",
}
APART_ONLY = {"documents_stay_apart"}


def case_of(task: Any, data: dict[str, Any], model: dict[str, Any], folder: Path) -> Case:
    recipe = {
        "task": task,
        "data": {**data, "prepared": str(folder / "prepared")},
        "tokenizer": {"vocabulary": 300},
        "model": {**SMALL, **model},
        "training": {"steps": 1, "optimizer": {"kind": "adamw", "learning_rate": 0.01}},
    }
    with pytest.MonkeyPatch.context() as few:
        few.setattr(setup, "EXAMPLES", 16)
        few.setattr(setup, "A_BATCH", 2)
        return make_case(make_recipe(recipe, (), "a test"), silent)


@pytest.fixture(scope="module")
def translation(tmp_path_factory: pytest.TempPathFactory) -> Case:
    data = {"train": GRAMMAR, "dev": {**GRAMMAR, "split": "dev"}}
    folder = tmp_path_factory.mktemp("translation")
    return case_of("translation", data, {"kind": "encoder-decoder"}, folder)


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("text")
    lines = [f"{pair.english}\n" for pair in corpus(1, 300, 20, 20).train]
    (folder / "train.txt").write_text("".join(lines[20:]), "utf-8")
    (folder / "dev.txt").write_text("".join(lines[:20]), "utf-8")
    data = {
        part: {"kind": "text", "path": str(folder / f"{part}.txt")} for part in ("train", "dev")
    }
    return case_of("language-model", data, {"kind": "language-model"}, folder)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Short documents, some of which stand in one row."""
    folder = tmp_path_factory.mktemp("apart")
    lines = [f"{pair.english}\n" for pair in corpus(1, 300, 20, 20).train]
    (folder / "train.txt").write_text("".join(lines[20:]), "utf-8")
    (folder / "dev.txt").write_text("".join(lines[:20]), "utf-8")
    data = {
        part: {"kind": "text", "path": str(folder / f"{part}.txt"), "documents": "line"}
        for part in ("train", "dev")
    }
    task = {"kind": "language-model", "document_mask": True}
    return case_of(task, data, {"kind": "language-model"}, folder)


@pytest.fixture(scope="module")
def classification(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("labeled")
    texts = [pair.english for pair in corpus(1, 300, 20, 20).train]
    lines = [f"{text}\t{'asks' if '?' in text else 'says'}\n" for text in texts]
    (folder / "texts.tsv").write_text("".join(lines), "utf-8")
    data = {"train": {"kind": "labeled", "path": str(folder / "texts.tsv")}, "dev_size": 15}
    return case_of("classification", data, {"kind": "classifier"}, folder)


@pytest.fixture(params=["translation", "language_model", "apart", "classification"])
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.getfixturevalue(request.param)
    return found


def test_a_sound_recipe_passes_every_proof_that_applies(case: Case) -> None:
    before = {name: weight.clone() for name, weight in case.model.state_dict().items()}
    found = dict(zip((proof.__name__ for proof in PROOFS), prove(case, silent), strict=True))
    assert [name for name, proof in found.items() if proof.failed] == []
    skipped = {name for name, proof in found.items() if proof.found is None}
    alike = isinstance(case.examples[0], DocumentMaskedBatch)
    assert skipped & APART_ONLY == (set() if alike else APART_ONLY)
    assert skipped - APART_ONLY == (
        WRITING_ONLY if isinstance(case.model, ClassifierModel) else set()
    )
    for name, weight in case.model.state_dict().items():
        assert torch.equal(weight, before[name]), name


def broken(case: Case, change: Callable[[nn.Module], None]) -> Case:
    model = case.learner().model.eval()
    change(model)
    return replace(case, model=model)


def failing(case: Case) -> set[str]:
    """The quick proofs that a case fails."""
    quick = [proof for proof in PROOFS if proof is not properties.a_few_can_be_learned_by_heart]
    return {proof.__name__ for proof in quick if proof(case).failed}


class Unmasked(Attention):
    """Looks at everything, whatever it is told."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, _: AttentionMask, __: InAttention) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class SeesPadding(Attention):
    """Heeds the structure of the mask and forgets the padding."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, _: InAttention
    ) -> Tensor:
        seen = replace(mask, token_mask=None).dense
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


class SeesOtherDocuments(Attention):
    """Heeds the structure of the mask and forgets the documents."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, _: InAttention
    ) -> Tensor:
        seen = replace(mask, documents=None).dense
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


class Glimpse(nn.Module):
    """Adds a little of the next word, by a way that no gradient takes."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.01 * x.roll(-1, dims=1).detach()


def attend_with(attention: Attention, where: str) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        for name, module in model.named_modules():
            if isinstance(module, MultiHead) and where in name:
                module.attention = attention

    return change


def test_looking_ahead_is_caught_both_ways(translation: Case, language_model: Case) -> None:
    for case in (translation, language_model):
        caught = failing(broken(case, attend_with(Unmasked(), "decoder.blocks.0.attention")))
        assert caught >= {"no_look_ahead_in_logits", "no_look_ahead_in_gradients"}


def test_looking_ahead_without_a_gradient_is_caught_by_the_logits(language_model: Case) -> None:
    def change(model: nn.Module) -> None:
        model.decoder.embedding.norm = Glimpse()

    case = broken(language_model, change)
    assert properties.no_look_ahead_in_logits(case).failed
    assert not properties.no_look_ahead_in_gradients(case).failed


@pytest.mark.parametrize("where", ["encoder.blocks.0.attention", "cross"])
def test_attention_to_padding_is_caught(translation: Case, where: str) -> None:
    caught = failing(broken(translation, attend_with(SeesPadding(), where)))
    assert caught == {"neighbours_change_nothing", "accumulation_changes_nothing"}


def test_a_mean_over_padding_is_caught(classification: Case) -> None:
    class Careless(ClassifierModel):
        def forward(self, ids: Tensor, token_mask: Tensor) -> Tensor:
            logits: Tensor = self.output(self.encoder(ids, token_mask).mean(1))
            return logits

    def change(model: nn.Module) -> None:
        model.__class__ = Careless

    assert "neighbours_change_nothing" in failing(broken(classification, change))


def test_a_model_that_looks_at_its_neighbours_is_caught(classification: Case) -> None:
    def change(model: nn.Module) -> None:
        model.output.register_forward_hook(lambda _, __, logits: logits - logits.mean(0))

    assert "neighbours_change_nothing" in failing(broken(classification, change))


def test_a_cache_that_forgets_is_caught(translation: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = KVCache.append
    forgetting = lambda past, new: whole(KVCache(past.keys, past.values * 0), new)  # noqa: E731
    monkeypatch.setattr(KVCache, "append", forgetting)
    assert failing(translation) == {"steps_equal_the_whole"}


def test_a_cache_that_does_not_follow_its_rows_is_caught(
    language_model: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KVCache, "reorder", lambda memory, _: memory)
    assert failing(language_model) == {"steps_equal_the_whole"}


class Task:
    """A job of which the loss alone is asked."""

    def __init__(self, loss: Callable[[nn.Module, Any], Tensor]) -> None:
        self.loss = loss


def test_a_loss_that_is_a_mean_is_caught(case: Case) -> None:
    mean = Task(lambda model, batch: case.task.loss(model, batch) / batch.num_targets)
    assert failing(replace(case, task=mean)) == {"accumulation_changes_nothing"}


@pytest.mark.parametrize("task", ["translation", "language_model"])
def test_a_mean_of_means_is_caught(task: str, request: pytest.FixtureRequest) -> None:
    """Each batch weighs by its rows: right on average, wrong where rows differ in tokens."""
    case: Case = request.getfixturevalue(task)
    a_row = case.batch(case.examples).num_targets / len(case.examples)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return case.task.loss(model, batch) / batch.num_targets * a_row * len(tensors_2d(batch)[0])

    assert failing(replace(case, task=Task(loss))) == {"accumulation_changes_nothing"}


def test_parameters_that_do_not_learn_are_named(case: Case) -> None:
    frozen = "encoder.norm.gain" if isinstance(case.model, ClassifierModel) else "decoder.norm.gain"

    def change(model: nn.Module) -> None:
        model.get_parameter(frozen).requires_grad_(False)
        model.unused = nn.Linear(2, 2)

    proof = properties.every_parameter_learns(broken(case, change))
    assert proof.failed
    assert proof.found == 3
    for name in (frozen, "unused.weight", "unused.bias"):
        assert name in proof.hint


def test_a_model_that_cannot_learn_is_caught(
    classification: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(properties, "UPDATES", 10)

    def change(model: nn.Module) -> None:
        model.encoder.register_forward_hook(lambda _, __, states: states * 0)

    assert properties.a_few_can_be_learned_by_heart(broken(classification, change)).failed


def test_whoever_sees_other_documents_is_caught(apart: Case) -> None:
    def forget_documents(model: nn.Module) -> None:
        for block in model.decoder.blocks:
            block.attention.attention = SeesOtherDocuments()

    def forget_to_begin_anew(model: nn.Module) -> None:
        position = model.decoder.embedding.position
        model.decoder.embedding.position = _NeverAnew(position)

    assert failing(broken(apart, forget_documents)) == APART_ONLY
    assert failing(broken(apart, forget_to_begin_anew)) == APART_ONLY


class _NeverAnew(AtEmbedding):
    def __init__(self, position: nn.Module) -> None:
        super().__init__()
        self.position = position

    def forward(self, x: Tensor, places: int | Tensor) -> Tensor:
        found: Tensor = self.position(x, places if isinstance(places, int) else 0)
        return found


def test_what_is_not_finite_proves_nothing(translation: Case) -> None:
    def change(model: nn.Module) -> None:
        model.decoder.norm.register_forward_hook(lambda _, __, states: states * float("nan"))

    case = broken(translation, change)
    assert properties.a_few_can_be_learned_by_heart(case).failed
    assert failing(case) >= {*WRITING_ONLY, "neighbours_change_nothing"}


def test_text_that_the_tokenizer_does_not_know_is_caught(translation: Case) -> None:
    assert properties.the_text_is_known(replace(translation, unknown=0.06)).failed
    assert not properties.the_text_is_known(replace(translation, unknown=0.04)).failed


@pytest.mark.parametrize(("found", "failed"), [(0.5, False), (0.6, True), (None, False)])
def test_what_decides_a_proof(found: float | None, failed: bool) -> None:
    assert Proof("a claim", "a number", found, 0.5, "mend it").failed == failed


def test_examples_are_of_many_lengths_and_none_too_long(case: Case) -> None:
    lengths = {max(len(tensor[0]) for tensor in tensors_2d(each)) for each in case.examples}
    assert len(lengths) > 3
    assert max(lengths) <= WIDEST
    assert all(
        tensor.all()
        for each in case.examples
        for tensor in tensors_2d(each)
        if tensor.dtype == torch.bool
    )


def tensors_2d(batch: Any) -> list[Tensor]:
    return [t for field in fields(batch) if (t := getattr(batch, field.name)).dim() == 2]


ids = st.lists(st.integers(1, 50), min_size=1, max_size=6)


@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=5))
def test_taking_a_batch_apart_and_joining_it_gives_it_back(rows: list[tuple[Any, Any]]) -> None:
    batch = collate([Example(source, target) for source, target in rows], 0)
    again = join([alone(batch, row, widest=99) for row in range(len(rows))], pad_id=0)
    for field in fields(PairBatch):
        assert torch.equal(getattr(batch, field.name), getattr(again, field.name))


def test_a_batch_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="object"):
        call_of(object())


def test_experts_pass_whatever_they_do_in_training_only(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """With full experts and a wish for even use, batches would matter; the proofs go without."""
    data = {"train": GRAMMAR, "dev": {**GRAMMAR, "split": "dev"}}
    crowded = {"kind": "moe", "experts": 64, "capacity": 0.5, "balance": 1.0, "jitter": 0.5}
    model = {"kind": "encoder-decoder", "feed_forward": crowded}
    case = case_of("translation", data, model, tmp_path_factory.mktemp("experts"))
    for proof in (properties.accumulation_changes_nothing, properties.every_parameter_learns):
        found = proof(case)
        assert not found.failed, found
    for parameter in case.model.encoder.blocks[0].feed_forward.router.parameters():
        parameter.requires_grad_(False)
    assert properties.every_parameter_learns(case).found == 1
