"""How to look for what a model would say: all settings of decoding in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from regard.decoding.beam import Hypothesis, Select, beam, likeliest
from regard.decoding.diverse_beam import Diverse
from regard.decoding.lexical_constraints import Forced
from regard.decoding.logits_processors import (
    ForcePrefix,
    LogitsProcessor,
    NoRepeatNgram,
    RepetitionPenalty,
    SuppressPhrases,
)
from regard.decoding.sampling import Sampling
from regard.decoding.stepper import HasFusedGreedy, S, Stepper
from regard.decoding.stream import Choose, stream
from regard.decoding.stream import likeliest as greedily
from regard.errors import ConfigError

Ids = Sequence[int]


@dataclass(frozen=True)
class DecodingConfig:
    """Greedy unless something else is asked for.

    beam               beginnings followed at a time; 5 is usual, and better than 1
    n_best             sentences given back, best first
    length_penalty     α of log p / length^α: more favours longer sentences
    quick              end a beam after so many sentences as it is wide, as most engines do, and not
                       only when no better one can come
    groups, diversity  beams in groups that avoid each other's words
    sampling           draw words instead
    scored             give scores, which greedy decoding does without
    repetition_penalty, no_repeat (n-grams of this size), forbid (phrases): see rules.py
    """

    beam: int = 1
    n_best: int = 1
    length_penalty: float = 1.0
    quick: bool = False
    groups: int = 1
    diversity: float = 0.5
    sampling: Sampling | None = None
    scored: bool = False
    repetition_penalty: float = 1.0
    no_repeat: int = 0
    forbid: Sequence[Ids] = ()

    def __post_init__(self) -> None:
        if self.n_best > self.beam:
            raise ConfigError(
                f"a beam of {self.beam} cannot give the {self.n_best} best sentences: "
                f"widen the beam to {self.n_best}."
            )
        if self.sampling is not None and self.beam > 1:
            raise ConfigError("words are drawn or searched for, not both: sample with a beam of 1.")
        self.rules()  # a setting that makes no sense is refused before anything is begun

    def rules(self) -> list[LogitsProcessor]:
        """What holds for all rows."""
        rules: list[LogitsProcessor] = []
        if self.repetition_penalty != 1:
            rules.append(RepetitionPenalty(self.repetition_penalty))
        if self.no_repeat:
            rules.append(NoRepeatNgram(self.no_repeat))
        if self.forbid:
            rules.append(SuppressPhrases(self.forbid))
        return rules


@dataclass(frozen=True)
class Constraints:
    """What single rows must say, by their numbers."""

    prefix: Mapping[int, Ids] = field(default_factory=dict)
    forced: Mapping[int, Sequence[Ids]] = field(default_factory=dict)


def find(
    model: Stepper[S],
    state: S,
    first: Tensor,
    end: int,
    limits: Sequence[int],
    search: DecodingConfig,
    wishes: Constraints | None = None,
    numbers: Sequence[int] | None = None,
    before: Sequence[Ids] | None = None,
) -> list[list[Hypothesis]]:
    """What each row says after its first id (B,), best first; at most limits[row] ids.

    `numbers` are what chance knows the rows by, so that a row draws the same in any batch; `before`
    is what each has said already, which rules look at.
    """
    wishes = wishes or Constraints()
    rules = _rules(search, wishes, before)
    if search.beam == 1 and not search.scored and not wishes.forced:
        if isinstance(model, HasFusedGreedy) and search.sampling is None and not rules:
            said = model.greedy(first, state, end, limits)
            return [[Hypothesis(ids, float("nan"))] for ids in said]
        choose = greedily if search.sampling is None else _drawing(search, wishes, numbers)
        said = [[] for _ in limits]
        for words in stream(model, state, first, end, limits, choose, rules, before):
            for row, word in words:
                said[row].append(word)
        return [[Hypothesis(ids, float("nan"))] for ids in said]
    select = _select(search, wishes, end)
    return beam(
        model,
        state,
        first,
        end,
        limits,
        search.beam,
        search.length_penalty,
        rules,
        select,
        before,
        wanted=search.n_best,
        quick=search.quick,
    )


def _drawing(search: DecodingConfig, wishes: Constraints, numbers: Sequence[int] | None) -> Choose:
    """Words are drawn by the row's own number and how many words of its own it has said."""

    def choose(logits: Tensor, rows: Sequence[int], step: int) -> Tensor:
        assert search.sampling is not None
        own = [step - len(wishes.prefix.get(row, ())) for row in rows]
        steps = [max(each, 0) for each in own]
        return search.sampling(logits, [numbers[row] if numbers else row for row in rows], steps)

    return choose


def _rules(
    search: DecodingConfig, wishes: Constraints, before: Sequence[Ids] | None
) -> list[LogitsProcessor]:
    rules = search.rules()
    if wishes.prefix:
        spoken = {row: len(ids) for row, ids in enumerate(before or [])}
        rules.append(ForcePrefix(wishes.prefix, spoken))
    return rules


def _select(search: DecodingConfig, wishes: Constraints, end: int) -> Select:
    if wishes.forced:
        return Forced(wishes.forced, end)
    return Diverse(search.groups, search.diversity) if search.groups > 1 else likeliest
