"""Beam search against all sentences there are, against its plain form, and against greedy."""

from dataclasses import dataclass, field
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.decoding.beam import Hypothesis, beam_search
from regard.decoding.greedy import greedy
from regard.errors import ConfigError
from regard.models.base import ModelSpec

V, END, FIRST = 5, 0, 1
CHANCE = torch.randn(100_003, V, generator=torch.Generator().manual_seed(0)).double() * 2

tables = st.lists(st.integers(0, 100_002), min_size=1, max_size=4)
widths = st.integers(1, 12)  # some wider than the vocabulary
penalties = st.sampled_from([0.0, 0.6, 1.0, 2.0])


@dataclass(frozen=True)
class Memory:
    """Everything a row has said, as the number of a line of CHANCE."""

    line: Tensor

    def reorder(self, rows: Tensor) -> "Memory":
        return Memory(self.line.index_select(0, rows))


@dataclass
class Random:
    """The next word's chances hang on all words before it, and on no other row."""

    batches: list[int] = field(default_factory=list)

    def step(self, ids: Tensor, state: Memory) -> tuple[Tensor, Memory]:
        self.batches.append(len(ids))
        line = (state.line * V + ids) % len(CHANCE)
        return CHANCE[line], Memory(line)


def search(
    lines: list[int],
    limits: list[int],
    width: int,
    penalty: float = 1.0,
    early_stopping: bool = False,
):
    first = torch.full((len(lines),), FIRST)
    memory = Memory(torch.tensor(lines))
    return beam_search(
        Random(), memory, first, END, limits, width, penalty, early_stopping=early_stopping
    )


def log_p(line: int, ids: tuple[int, ...]) -> list[float]:
    """Of each word after these."""
    state = Memory(torch.tensor([line]))
    for word in (FIRST, *ids):
        logits, state = Random().step(torch.tensor([word]), state)
    return logits[0].log_softmax(-1).tolist()


def best(hypotheses: list[tuple[tuple[int, ...], float]], width: int) -> list[Hypothesis]:
    found = [Hypothesis(list(ids), pytest.approx(score)) for ids, score in hypotheses]
    order = sorted(range(len(found)), key=lambda i: -hypotheses[i][1])
    return [found[i] for i in order[:width]]


def plainly(
    line: int, limit: int, width: int, penalty: float, early_stopping: bool = False
) -> list[Hypothesis]:
    """The same search for one row, word by word, to the limit: it never stops early."""
    beginnings: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    found = []
    for length in range(1, limit + 2):
        words = range(V) if length <= limit else [END]
        longer = [
            ((*ids, word), total + chances[word])
            for ids, total in beginnings
            for chances in [log_p(line, ids)]
            for word in words
        ]
        longer = sorted(longer, key=lambda each: -each[1])[:width]
        found += [(ids[:-1], total / length**penalty) for ids, total in longer if ids[-1] == END]
        beginnings = [each for each in longer if each[0][-1] != END]
        if early_stopping and len(found) >= width:
            break
    return best(found, width)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_wide_enough_finds_all_sentences_in_their_order(penalty: float) -> None:
    words = [word for word in range(V) if word != END]
    sentences = [ids for length in range(5) for ids in product(words, repeat=length)]
    scores = []
    for ids in sentences:
        total = sum(log_p(7, ids[:i])[word] for i, word in enumerate((*ids, END)))
        scores.append(total / (len(ids) + 1) ** penalty)
    everything = best(list(zip(sentences, scores, strict=True)), len(sentences))
    assert search([7], [4], len(sentences), penalty) == [everything]


@given(tables, widths, penalties, st.booleans(), st.data())
@settings(max_examples=60, deadline=None)
def test_in_a_batch_and_stopped_early_the_same_is_found(
    lines: list[int], width: int, penalty: float, early_stopping: bool, data: st.DataObject
) -> None:
    limits = [data.draw(st.integers(1, 6)) for _ in lines]
    found = search(lines, limits, width, penalty, early_stopping)
    for row, line, limit in zip(found, lines, limits, strict=True):
        assert row == plainly(line, limit, width, penalty, early_stopping)
        assert 1 <= len(row) <= width
        assert all(len(hypothesis.ids) <= limit for hypothesis in row)
        assert END not in {word for hypothesis in row for word in hypothesis.ids}


@given(tables, penalties)
@settings(max_examples=50, deadline=None)
def test_a_beam_of_one_says_what_greedy_says(lines: list[int], penalty: float) -> None:
    limits = [3 + place for place in range(len(lines))]
    first = torch.full((len(lines),), FIRST)
    said = greedy(Random(), Memory(torch.tensor(lines)), first, END, limits)
    assert [[best.ids for best in row] for row in search(lines, limits, 1, penalty)] == [
        [ids] for ids in said
    ]


@dataclass
class Script(Random):
    """What is said next hangs only on how much has been said."""

    scenes: list[dict[int, float]] = field(default_factory=list)  # chances of words, the rest none

    def step(self, ids: Tensor, state: Memory) -> tuple[Tensor, Memory]:
        self.batches.append(len(ids))
        chances = torch.full((len(self.scenes), V), 1e-9)
        chances[:, END] = 2e-9  # of what has none, the first
        for scene, words in enumerate(self.scenes):
            chances[scene, list(words)] = torch.tensor(list(words.values()))
        return chances.log()[state.line], Memory(state.line + 1)


def test_a_row_that_is_done_leaves_the_batch_long_before_its_limit() -> None:
    model = Script(scenes=[{2: 1.0}, {2: 1.0}, {2: 1.0}, *[{END: 1.0}] * 40])
    found = beam_search(
        model, Memory(torch.tensor([2, 0])), torch.tensor([1, 1]), END, [40, 40], width=2
    )
    assert [row[0].ids for row in found] == [[2], [2, 2, 2]]
    assert model.batches[:2] == [2, 2]  # what ended and what has no hope is not continued
    assert model.batches[-1] == 1
    assert len(model.batches) < 20


def test_a_row_goes_on_while_a_poor_beginning_may_come_good() -> None:
    """Two sentences are found at once; a third costs nothing after its second word."""
    scenes = [{END: 0.9, 2: 0.1}, {END: 0.9, 3: 0.1}, *[{3: 1.0}] * 8, {END: 1.0}]
    first, state = torch.tensor([1]), Memory(torch.tensor([0]))
    (found,) = beam_search(Script(scenes=scenes), state, first, END, [20], width=2)
    assert [each.ids for each in found] == [[], [2, *[3] * 9]]


def build() -> torch.nn.Module:
    sizes = {"dim": 16, "heads": 2, "ffn_dim": 32, "layers": 1, "dropout": 0.0, "max_length": 32}
    model = ModelSpec.model_validate({"kind": "encoder-decoder", **sizes}).build(12)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # opinions, as in a trained model
    return model.double().eval()


def test_a_transformers_row_alone_or_with_others_and_greedy() -> None:
    model = build()
    source, limits = torch.randint(4, 12, (4, 7)), [3, 5, 8, 12]
    source_mask = torch.arange(7) < torch.tensor([7, 4, 2, 6])[:, None]

    def say(row: slice, width: int) -> list[list[Hypothesis]]:
        state = model.start(source[row], source_mask[row])
        return beam_search(model, state, torch.full((len(source[row]),), 2), 3, limits[row], width)

    everyone = say(slice(4), 4)
    for row in range(4):
        (alone,) = say(slice(row, row + 1), 4)
        assert [each.ids for each in everyone[row]] == [each.ids for each in alone]
        assert [each.score for each in everyone[row]] == pytest.approx([h.score for h in alone])
    said = greedy(model, model.start(source, source_mask), torch.full((4,), 2), 3, limits)
    assert [row[0].ids for row in say(slice(4), 1)] == said


def test_scores_are_those_of_the_model_itself() -> None:
    model = build()
    source = torch.randint(4, 12, (1, 5))
    source_mask = torch.ones(1, 5, dtype=torch.bool)
    state = model.start(source, source_mask)
    (found,) = beam_search(model, state, torch.tensor([2]), 3, [6], width=3, length_penalty=0.5)
    for hypothesis in found:
        target = torch.tensor([[2, *hypothesis.ids, 3]])
        chances = model(source, source_mask, target[:, :-1]).log_softmax(-1)[0]
        total = chances[torch.arange(target.size(1) - 1), target[0, 1:]].sum().item()
        assert hypothesis.score == pytest.approx(total / (len(hypothesis.ids) + 1) ** 0.5)


@pytest.mark.parametrize(("width", "penalty"), [(0, 1.0), (2, -0.1)])
def test_what_cannot_search_is_refused(width: int, penalty: float) -> None:
    with pytest.raises(ConfigError, match="cannot search"):
        search([1], [3], width, penalty)
