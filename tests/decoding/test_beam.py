"""Beam search against exhaustive search, a plain implementation and greedy decoding."""

from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.decoding.beam import Hypothesis, beam_search
from regard.decoding.greedy import greedy
from regard.engine.numerics import log_softmax
from regard.engine.torch_model import TorchModel
from regard.errors import ConfigError
from regard.models.base import ModelSpec

V, END, FIRST = 5, 0, 1
LOGITS = torch.randn(100_003, V, generator=torch.Generator().manual_seed(0)).double().numpy() * 2

tables = st.lists(st.integers(0, 100_002), min_size=1, max_size=4)
widths = st.integers(1, 12)  # some wider than the vocabulary
penalties = st.sampled_from([0.0, 0.6, 1.0, 2.0])


@dataclass(frozen=True)
class RandomState:
    """Hash of each row's ids: a row of LOGITS."""

    line: NDArray

    def reorder(self, rows: NDArray) -> "RandomState":
        return RandomState(self.line[rows])


@dataclass
class Random:
    """A model with random logits that depend on all ids of a row and on no other row."""

    batches: list[int] = field(default_factory=list)

    def step(self, ids: NDArray, state: RandomState) -> tuple[NDArray, RandomState]:
        self.batches.append(len(ids))
        line = (state.line * V + ids) % len(LOGITS)
        return LOGITS[line], RandomState(line)


def search(
    lines: list[int],
    limits: list[int],
    width: int,
    penalty: float = 1.0,
    early_stopping: bool = False,
):
    first = np.full(len(lines), FIRST)
    state = RandomState(np.array(lines))
    return beam_search(
        Random(), state, first, END, limits, width, penalty, early_stopping=early_stopping
    )


def log_p(line: int, ids: tuple[int, ...]) -> list[float]:
    """Return log p of each token after these."""
    state = RandomState(np.array([line]))
    for word in (FIRST, *ids):
        logits, state = Random().step(np.array([word]), state)
    return log_softmax(logits[0]).tolist()


def ends_itself(line: int, ids: tuple[int, ...]) -> bool:
    next_log_p = log_p(line, ids)
    return next_log_p.index(max(next_log_p)) == END


def best(
    line: int, hypotheses: list[tuple[tuple[int, ...], float]], width: int, limit: int
) -> list[Hypothesis]:
    """Return the best hypotheses; at the limit, one is finished if the end is most likely."""
    ranked = [
        Hypothesis(list(ids), pytest.approx(score), len(ids) < limit or ends_itself(line, ids))
        for ids, score in hypotheses
    ]
    order = sorted(range(len(ranked)), key=lambda i: -hypotheses[i][1])
    return [ranked[i] for i in order[:width]]


def plain_beam_search(
    line: int, limit: int, width: int, penalty: float, early_stopping: bool = False
) -> list[Hypothesis]:
    """Search one row, token by token, to its limit, without pruning."""
    hypotheses: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished = []
    for length in range(1, limit + 2):
        tokens = range(V) if length <= limit else [END]
        longer = [
            ((*ids, token), total + next_log_p[token])
            for ids, total in hypotheses
            for next_log_p in [log_p(line, ids)]
            for token in tokens
        ]
        longer = sorted(longer, key=lambda each: -each[1])[:width]
        finished += [(ids[:-1], total / length**penalty) for ids, total in longer if ids[-1] == END]
        hypotheses = [each for each in longer if each[0][-1] != END]
        if early_stopping and len(finished) >= width:
            break
    return best(line, finished, width, limit)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_exhaustive_beam_finds_all_outputs_in_order(penalty: float) -> None:
    words = [word for word in range(V) if word != END]
    sentences = [ids for length in range(5) for ids in product(words, repeat=length)]
    scores = []
    for ids in sentences:
        total = sum(log_p(7, ids[:i])[word] for i, word in enumerate((*ids, END)))
        scores.append(total / (len(ids) + 1) ** penalty)
    everything = best(7, list(zip(sentences, scores, strict=True)), len(sentences), 4)
    assert search([7], [4], len(sentences), penalty) == [everything]


@given(tables, widths, penalties, st.booleans(), st.data())
@settings(max_examples=60, deadline=None)
def test_batching_and_pruning_do_not_change_the_result(
    lines: list[int], width: int, penalty: float, early_stopping: bool, data: st.DataObject
) -> None:
    limits = [data.draw(st.integers(1, 6)) for _ in lines]
    actual = search(lines, limits, width, penalty, early_stopping)
    for row, line, limit in zip(actual, lines, limits, strict=True):
        assert row == plain_beam_search(line, limit, width, penalty, early_stopping)
        assert 1 <= len(row) <= width
        assert all(len(hypothesis.ids) <= limit for hypothesis in row)
        assert END not in {word for hypothesis in row for word in hypothesis.ids}


@given(tables, penalties)
@settings(max_examples=50, deadline=None)
def test_beam_of_one_equals_greedy(lines: list[int], penalty: float) -> None:
    limits = [3 + place for place in range(len(lines))]
    first = np.full(len(lines), FIRST)
    generated = greedy(Random(), RandomState(np.array(lines)), first, END, limits)
    assert [[best.ids for best in row] for row in search(lines, limits, 1, penalty)] == [
        [ids] for ids in generated
    ]


@dataclass
class Scripted(Random):
    """A model whose probabilities depend only on the number of generated tokens."""

    # Probabilities of tokens at each step; other tokens have almost none
    steps: list[dict[int, float]] = field(default_factory=list)

    def step(self, ids: NDArray, state: RandomState) -> tuple[NDArray, RandomState]:
        self.batches.append(len(ids))
        probs = np.full((len(self.steps), V), 1e-9)
        probs[:, END] = 2e-9  # most likely of the others
        for step, tokens in enumerate(self.steps):
            probs[step, list(tokens)] = list(tokens.values())
        return np.log(probs)[state.line], RandomState(state.line + 1)


def test_finished_row_leaves_the_batch_before_its_limit() -> None:
    model = Scripted(steps=[{2: 1.0}, {2: 1.0}, {2: 1.0}, *[{END: 1.0}] * 40])
    actual = beam_search(
        model, RandomState(np.array([2, 0])), np.array([1, 1]), END, [40, 40], width=2
    )
    assert [row[0].ids for row in actual] == [[2], [2, 2, 2]]
    assert model.batches[:2] == [2, 2]  # finished and pruned hypotheses are not continued
    assert model.batches[-1] == 1
    assert len(model.batches) < 20


def test_search_continues_while_a_live_hypothesis_can_win() -> None:
    """Two hypotheses end at once; a third has probability 1 after its second token."""
    steps = [{END: 0.9, 2: 0.1}, {END: 0.9, 3: 0.1}, *[{3: 1.0}] * 8, {END: 1.0}]
    first, state = np.array([1]), RandomState(np.array([0]))
    (actual,) = beam_search(Scripted(steps=steps), state, first, END, [20], width=2)
    assert [each.ids for each in actual] == [[], [2, *[3] * 9]]


def build() -> TorchModel:
    sizes = {"dim": 16, "heads": 2, "ffn_dim": 32, "layers": 1, "dropout": 0.0, "max_length": 32}
    model = ModelSpec.model_validate({"kind": "encoder-decoder", **sizes}).build(12)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # larger logits, as in a trained model
    return TorchModel(model.double().eval())


def test_transformer_rows_alone_in_a_batch_and_greedy() -> None:
    model = build()
    source, limits = torch.randint(4, 12, (4, 7)).numpy(), [3, 5, 8, 12]
    source_mask = np.arange(7) < np.array([7, 4, 2, 6])[:, None]

    def search_rows(row: slice, width: int) -> list[list[Hypothesis]]:
        state = model.start(source[row], source_mask[row])
        return beam_search(model, state, np.full(len(source[row]), 2), 3, limits[row], width)

    together = search_rows(slice(4), 4)
    for row in range(4):
        (alone,) = search_rows(slice(row, row + 1), 4)
        assert [each.ids for each in together[row]] == [each.ids for each in alone]
        assert [each.score for each in together[row]] == pytest.approx([h.score for h in alone])
    generated = greedy(model, model.start(source, source_mask), np.full(4, 2), 3, limits)
    assert [row[0].ids for row in search_rows(slice(4), 1)] == generated


def test_scores_equal_log_probs_of_the_model() -> None:
    model = build()
    source = torch.randint(4, 12, (1, 5))
    source_mask = torch.ones(1, 5, dtype=torch.bool)
    state = model.start(source.numpy(), source_mask.numpy())
    (actual,) = beam_search(model, state, np.array([2]), 3, [6], width=3, length_penalty=0.5)
    for hypothesis in actual:
        target = torch.tensor([[2, *hypothesis.ids, 3]])
        log_probs = model.model(source, source_mask, target[:, :-1]).log_softmax(-1)[0]
        total = log_probs[torch.arange(target.size(1) - 1), target[0, 1:]].sum().item()
        assert hypothesis.score == pytest.approx(total / (len(hypothesis.ids) + 1) ** 0.5)


@pytest.mark.parametrize(("width", "penalty"), [(0, 1.0), (2, -0.1)])
def test_invalid_width_or_penalty_is_refused(width: int, penalty: float) -> None:
    with pytest.raises(ConfigError, match=r"^(beam|length_penalty) is "):
        search([1], [3], width, penalty)
