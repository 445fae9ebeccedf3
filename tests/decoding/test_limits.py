"""Every algorithm returns an output for every row, within its limit, with its required text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.decoding.test_beam import END, FIRST, Random, RandomState, V, ends_itself
from tests.decoding.test_lexical_constraints import contains

from regard.decoding.beam import Hypothesis, beam_search
from regard.decoding.config import Constraints, DecodingConfig, decode
from regard.decoding.diverse_beam import DiverseBeam
from regard.decoding.greedy import greedy, stream_tokens
from regard.decoding.lexical_constraints import RequirePhrases, progress
from regard.decoding.logits_processors import ForcePrefix, NoRepeatNgram, SuppressPhrases
from regard.decoding.sampling import Sampling
from regard.decoding.sliding_window import SlidingWindow
from regard.decoding.speculative import PromptLookup, speculate
from regard.errors import ConfigError, DataError, RunError

lines = st.lists(st.integers(0, 100_002), min_size=1, max_size=3)
tokens = st.integers(1, V - 1)
any_tokens = st.integers(0, V - 1)  # the end token too
configs = st.one_of(
    st.builds(DecodingConfig),
    st.builds(DecodingConfig, sampling=st.builds(Sampling, seed=st.integers(0, 99))),
    st.integers(1, 4).flatmap(
        lambda beam: st.builds(
            DecodingConfig,
            beam=st.just(beam),
            n_best=st.integers(1, beam),
            early_stopping=st.booleans(),
            length_penalty=st.sampled_from([0.0, 1.0, 2.0]),
        )
    ),
    st.builds(DecodingConfig, beam=st.just(4), n_best=st.integers(1, 4), beam_groups=st.just(2)),
)
suppressed = st.lists(st.lists(any_tokens, min_size=1, max_size=2), max_size=6)


def run(
    rows: Sequence[int],
    limits: Sequence[int],
    config: DecodingConfig,
    constraints: Constraints | None = None,
    prompts: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    first = np.full(len(rows), FIRST)
    state = RandomState(np.array(rows))
    return decode(Random(), state, first, END, limits, config, constraints, prompts=prompts)


def has_suppressed(ids: list[int], phrases: Sequence[Sequence[int]]) -> bool:
    return any(contains(ids, list(phrase)) for phrase in phrases if END not in phrase)


@given(lines, configs, suppressed, st.integers(0, 2), st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
def test_every_row_has_an_output_within_its_limit(
    rows: list[int],
    config: DecodingConfig,
    phrases: list[list[int]],
    no_repeat: int,
    with_prompt: bool,
    data: st.DataObject,
) -> None:
    settings_ = {**vars(config), "suppress_phrases": phrases, "no_repeat_ngram": no_repeat}
    config = DecodingConfig(**settings_)
    limits = [data.draw(st.integers(0, 5)) for _ in rows]
    prefixes = {
        row: data.draw(st.lists(tokens, max_size=limit)) for row, limit in enumerate(limits)
    }
    prompts = [[END, 2]] * len(rows) if with_prompt else None
    outputs = run(rows, limits, config, Constraints(prefixes), prompts)
    for row, (hypotheses, limit) in enumerate(zip(outputs, limits, strict=True)):
        assert 1 <= len(hypotheses) <= config.n_best
        assert len({tuple(each.ids) for each in hypotheses}) == len(hypotheses)
        for each in hypotheses:
            prefix = prefixes[row]
            assert each.ids[: len(prefix)] == prefix
            assert len(each.ids) <= limit
            assert each.finished or len(each.ids) == limit
            assert END not in each.ids
            if not prefix:
                assert not has_suppressed(each.ids, phrases)
            free = not prefix and not with_prompt
            if no_repeat and free:
                ngrams = [
                    tuple(each.ids[i : i + no_repeat]) for i in range(len(each.ids) - no_repeat + 1)
                ]
                assert len(set(ngrams)) == len(ngrams)
            assert not math.isinf(each.score)


@given(
    st.integers(0, 100_002),
    st.lists(st.lists(tokens, min_size=1, max_size=3), min_size=1, max_size=3),
    st.lists(tokens, max_size=3),
    st.integers(0, 8),
    st.integers(1, 4),
    st.integers(0, 2),
    suppressed,
)
@settings(max_examples=150, deadline=None)
def test_required_phrases_are_present_or_refused(
    line: int,
    phrases: list[list[int]],
    prefix: list[int],
    limit: int,
    beam: int,
    no_repeat: int,
    excluded: list[list[int]],
) -> None:
    """Required text has priority over excluded tokens, and its tokens count for the limit."""
    config = DecodingConfig(beam=beam, no_repeat_ngram=no_repeat, suppress_phrases=excluded)
    constraints = Constraints({0: prefix}, {0: phrases})
    required = len(prefix) + progress(prefix, phrases).missing
    if required > limit:
        with pytest.raises(DataError, match=f"must contain has {required} tokens"):
            run([line], [limit], config, constraints)
        return
    (hypotheses,) = run([line], [limit], config, constraints)
    assert hypotheses
    for each in hypotheses:
        assert each.ids[: len(prefix)] == prefix
        assert progress(each.ids, phrases).missing == 0
        assert len(each.ids) <= limit
        assert not math.isinf(each.score)


@given(
    st.lists(st.lists(tokens, min_size=1, max_size=3), min_size=1, max_size=3),
    st.lists(tokens, max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_the_next_tokens_always_advance(phrases: list[list[int]], ids: list[int]) -> None:
    """So a hypothesis with as many tokens left as are missing can always complete its phrases."""
    made = progress(ids, phrases)
    assert made.done + made.missing == sum(map(len, phrases))
    assert bool(made.next) == bool(made.missing)
    for token in made.next:
        assert progress([*ids, token], phrases).missing < made.missing


def test_progress_takes_time_in_proportion_to_the_tokens() -> None:
    """A phrase that overlaps itself everywhere is assigned without trying every combination."""
    assert progress([7] * 300, [[7, 7]] * 5 + [[7, 7, 7]] * 5).missing == 0


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("limit", [0, 1, 4])
def test_row_ends_where_all_tokens_are_excluded(beam: int, limit: int) -> None:
    """Every id is suppressed, the end too: only ending is possible."""
    config = DecodingConfig(
        beam=beam, return_scores=beam > 1, suppress_phrases=[[token] for token in range(V)]
    )
    ((only,),) = run([3], [limit], config)
    assert only.ids == []
    assert only.finished
    assert beam == 1 or math.isfinite(only.score)


def test_no_repeated_ngram_never_excludes_the_end() -> None:
    """A prompt that has the end token in it, as that of a language model without BOS tokens."""
    scores = NoRepeatNgram(1, END)(np.zeros((1, V)), [[END, 2]], [0])
    assert scores[0, END] == 0
    assert scores[0, 2] == -math.inf


def test_too_long_a_prefix_leaves_an_unfinished_hypothesis() -> None:
    """The search itself keeps to the limit; `decode` refuses such a prefix."""
    state, first = RandomState(np.array([5])), np.array([FIRST])
    (hypotheses,) = beam_search(
        Random(), state, first, END, [2], 3, processors=[ForcePrefix({0: [1, 2, 3]})]
    )
    assert [each.ids for each in hypotheses] == [[1, 2]]
    with pytest.raises(DataError, match="has 3 tokens, and the output may have at most 2"):
        run([5], [2], DecodingConfig(beam=3), Constraints({0: [1, 2, 3]}))
    (hypotheses,) = beam_search(
        Random(), state, first, END, [2], 3, select=RequirePhrases({0: [[1, 2, 3]]}, END)
    )
    assert all(len(each.ids) <= 2 for each in hypotheses)


@given(st.integers(0, 100_002), st.integers(0, 5), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_output_is_finished_if_the_model_ends_it(line: int, limit: int, beam: int) -> None:
    """Greedy decoding with a larger limit tells whether the text would go on."""
    (expected,) = greedy(
        Random(), RandomState(np.array([line])), np.array([FIRST]), END, [limit + 1]
    )
    for config in (DecodingConfig(), DecodingConfig(return_scores=True)):
        ((only,),) = run([line], [limit], config)
        assert only.ids == expected[:limit]
        assert only.finished == (len(expected) <= limit)
    for each in run([line], [limit], DecodingConfig(beam=beam, n_best=beam))[0]:
        ends = len(each.ids) < limit or ends_itself(line, tuple(each.ids))
        assert each.finished == ends


def test_settings_that_cannot_place_phrases_are_refused() -> None:
    phrases = Constraints(phrases={0: [[1]]})
    with pytest.raises(ConfigError, match=r"^sampling and required phrases exclude"):
        run([5], [4], DecodingConfig(sampling=Sampling()), phrases)
    with pytest.raises(ConfigError, match=r"^beam_groups and required phrases exclude"):
        run([5], [4], DecodingConfig(beam=2, beam_groups=2), phrases)


def test_limit_of_zero_generates_nothing() -> None:
    state, first = RandomState(np.array([1, 2])), np.array([FIRST, FIRST])
    assert greedy(Random(), state, first, END, [0, 3])[0] == []
    assert greedy(Random(), state, first, END, [0, 0]) == [[], []]
    assert run([], [], DecodingConfig()) == []
    assert run([], [], DecodingConfig(beam=2)) == []


@dataclass(frozen=True)
class ConstantState:
    length: int = 0

    def reorder(self, _rows: NDArray) -> "ConstantState":
        return self

    def truncate(self, length: int) -> "ConstantState":
        return ConstantState(length)


@dataclass
class Constant:
    """A model with the same logits everywhere."""

    logits: NDArray

    def start(self) -> ConstantState:
        return ConstantState()

    def step(self, ids: NDArray, state: ConstantState) -> tuple[NDArray, ConstantState]:
        return np.tile(self.logits, (len(ids), 1)), ConstantState(state.length + 1)

    def extend(self, ids: NDArray, state: ConstantState) -> tuple[NDArray, ConstantState]:
        after = ConstantState(state.length + ids.shape[1])
        return np.tile(self.logits, (*ids.shape, 1)), after


NOT_FINITE = {
    "all −∞": np.full(V, -math.inf),
    "one NaN": np.array([0.0, 1.0, math.nan, 0.0, 0.0]),
    "one ∞": np.array([0.0, 1.0, math.inf, 0.0, 0.0]),
}


@pytest.mark.parametrize("logits", NOT_FINITE.values(), ids=NOT_FINITE.keys())
def test_logits_that_are_not_finite_are_refused(logits: NDArray) -> None:
    model, first = Constant(logits), np.array([FIRST])
    state = model.start()
    sliding = SlidingWindow(model, 8, [])
    for output in (
        lambda: decode(model, state, first, END, [3], DecodingConfig()),
        lambda: decode(model, state, first, END, [3], DecodingConfig(beam=2)),
        lambda: decode(model, state, first, END, [3], DecodingConfig(beam=2, beam_groups=2)),
        lambda: decode(model, state, first, END, [3], DecodingConfig(beam=2, no_repeat_ngram=1)),
        lambda: decode(model, state, first, END, [3], DecodingConfig(sampling=Sampling())),
        lambda: list(stream_tokens(sliding, sliding.start(), first, END, [3])),
        lambda: list(speculate(model, state, FIRST, END, 3, PromptLookup())),
        lambda: list(speculate(model, state, FIRST, END, 3, PromptLookup(), sampling=Sampling())),
    ):
        with pytest.raises(RunError, match="not finite"):
            output()


def test_groups_that_find_the_same_hypothesis_return_it_once() -> None:
    """Without a cost, all groups search the same hypotheses."""
    state, first = RandomState(np.array([9])), np.array([FIRST])
    (groups,) = beam_search(Random(), state, first, END, [5], 6, select=DiverseBeam(3, 0.0))
    (plain,) = beam_search(Random(), state, first, END, [5], 2)
    assert [each.ids for each in groups[:1]] == [each.ids for each in plain[:1]]
    assert len({tuple(each.ids) for each in groups}) == len(groups)


def test_groups_wider_than_the_vocabulary_stay_apart() -> None:
    """The first step has fewer candidates than a group: the groups must not mix afterwards."""
    state, first = RandomState(np.array([9])), np.array([FIRST])
    size = V + 2
    (groups,) = beam_search(Random(), state, first, END, [4], 2 * size, select=DiverseBeam(2, 0.0))
    (plain,) = beam_search(Random(), state, first, END, [4], size)
    assert [each.ids for each in groups[: len(plain)]] == [each.ids for each in plain]


def test_hypotheses_with_the_same_result_are_returned_once() -> None:
    def parity(ids: list[int]) -> int:
        return sum(ids) % 2

    state, first = RandomState(np.array([4])), np.array([FIRST])
    (every,) = beam_search(Random(), state, first, END, [4], 8)
    (pair,) = beam_search(Random(), state, first, END, [4], 8, n_best=2, distinct=parity)
    best = [next(each for each in every if parity(each.ids) == value) for value in (0, 1)]
    assert [each.ids for each in pair] == [
        each.ids for each in sorted(best, key=lambda each: -each.score)
    ]


def test_suppressed_ids_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"vocabulary of {V} tokens"):
        run([1], [3], DecodingConfig(suppress_phrases=[[V]]))
    for wrong in (["text"], "text", [[-1]], [[1.0]], [[True]], [3]):
        with pytest.raises(ConfigError, match="sequences of token ids"):
            SuppressPhrases(wrong)  # type: ignore[arg-type]
