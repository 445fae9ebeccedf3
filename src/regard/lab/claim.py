"""The base class of claims: a statement, an experiment, and criteria that decide on the verdict.

The criteria are fixed before the experiment: they are attributes of the class, each with a quantity
and a threshold. `gather` measures and returns plain data, `weigh` computes one interval for each
criterion from it, and the verdict follows.

    a criterion   holds      if its whole interval satisfies the threshold
                  fails      if no part of its interval does
                  is unclear if the threshold lies inside the interval
    a claim       is supported if all criteria hold, not supported here if one fails, and unclear
                  otherwise

There is no verdict from fewer than `MIN_SEEDS` repetitions. A quantity that is bounded by the way
it is computed is shown and not judged: it would hold whatever the experiment finds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from regard.config import Kind
from regard.lab.experiment import Experiment
from regard.lab.figures import Figure
from regard.lab.intervals import Interval

Evidence = Mapping[str, Any]  # plain data, as JSON holds it
Outcome = Literal["holds", "fails", "unclear", "not judged"]
Verdict = Literal["supported", "not supported here", "unclear"]

MIN_SEEDS = 3  # repetitions that a verdict needs


@dataclass(frozen=True)
class Criterion:
    """A quantity and its threshold: at least, or at most, this value.

    `by_construction` says why it cannot violate its threshold; then it is shown and not judged.
    """

    description: str
    at_least: float | None = None
    at_most: float | None = None
    by_construction: str | None = None

    def outcome(self, measured: Interval) -> Outcome:
        """Return whether the whole interval, part of it or none of it satisfies the threshold."""
        if self.by_construction is not None:
            return "not judged"
        low = float("-inf") if self.at_least is None else self.at_least
        high = float("inf") if self.at_most is None else self.at_most
        if low <= measured.low and measured.high <= high:
            return "holds"
        return "fails" if measured.high < low or measured.low > high else "unclear"

    @property
    def threshold(self) -> str:
        """Return the threshold as text, such as "≥ 0.1"."""
        ends = (("≥", self.at_least), ("≤", self.at_most))
        return " and ".join(f"{sign} {end:g}" for sign, end in ends if end is not None)


class Claim(Kind, package="regard.lab.claims"):
    """A claim of the lecture; its fields are the settings of the experiment, by default in full."""

    number: ClassVar[int]  # order in the lecture
    title: ClassVar[str]
    statement: ClassVar[str]  # the claim, as the lecture states it
    experiment: ClassVar[str]  # description of the experiment
    criteria: ClassVar[Mapping[str, Criterion]]
    quick: ClassVar[Mapping[str, Any]]  # settings for a trial of seconds, without a verdict

    seeds: int = Field(3, gt=0, description="number of repetitions with different random seeds")

    def gather(self, experiment: Experiment) -> Evidence:
        """Run the experiment and return its measurements as plain data, by seed."""
        raise NotImplementedError

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        """Compute the interval of each criterion from the evidence."""
        raise NotImplementedError

    def repetitions(self, evidence: Evidence) -> int:
        """Return the number of repetitions that the criteria are judged on."""
        return self.seeds

    def show(self, evidence: Evidence) -> list[Figure]:
        """Return tables and plots of the evidence."""
        raise NotImplementedError


def judge(
    claim: type[Claim], intervals: Mapping[str, Interval]
) -> tuple[dict[str, Outcome], Verdict]:
    """Return the outcome of each criterion, and the verdict on the claim."""
    outcomes = {
        name: criterion.outcome(intervals[name]) for name, criterion in claim.criteria.items()
    }
    if "fails" in outcomes.values():
        return outcomes, "not supported here"
    return outcomes, "unclear" if "unclear" in outcomes.values() else "supported"
