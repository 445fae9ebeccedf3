"""What a claim is: what is said, how it is tested, and the rule that turns evidence into a verdict.

The rule stands before the evidence: `criteria` belong to the class, and name what is weighed and
where the line is. `gather` measures and returns plain data; `weigh` computes from it one interval
for each criterion, and nothing else; the verdict follows.

    a criterion   holds      where its whole interval is on the right side of the line
                  fails      where its whole interval is on the wrong side
                  is unclear where the line goes through it
    a claim       is supported where all criteria hold, not supported here where one fails, and
                  unclear otherwise
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from regard.config import Kind
from regard.lab.experiment import Bench
from regard.lab.figures import Exhibit
from regard.lab.intervals import Interval

Evidence = Mapping[str, Any]  # plain data, as JSON holds it
Outcome = Literal["holds", "fails", "unclear"]
Verdict = Literal["supported", "not supported here", "unclear"]


@dataclass(frozen=True)
class Criterion:
    """What must be so, and the line: the figure is at least, or at most, this."""

    says: str
    at_least: float | None = None
    at_most: float | None = None

    def outcome(self, found: Interval) -> Outcome:
        low = float("-inf") if self.at_least is None else self.at_least
        high = float("inf") if self.at_most is None else self.at_most
        if low <= found.low and found.high <= high:
            return "holds"
        return "fails" if found.high < low or found.low > high else "unclear"

    @property
    def line(self) -> str:
        ends = (("≥", self.at_least), ("≤", self.at_most))
        return " and ".join(f"{sign} {end:g}" for sign, end in ends if end is not None)


class Claim(Kind, package="regard.lab.claims"):
    """A kind is a claim; its fields are the settings of its experiment, in full by default."""

    number: ClassVar[int]  # in the order of the lecture
    title: ClassVar[str]
    statement: ClassVar[str]  # the claim, as the lecture has it
    experiment: ClassVar[str]  # how it is tested
    criteria: ClassVar[Mapping[str, Criterion]]
    quick: ClassVar[Mapping[str, Any]]  # settings for a look of seconds

    seeds: int = Field(3, gt=0, description="how often everything drawn is drawn anew")

    def gather(self, bench: Bench) -> Evidence:
        """Measure, and return plain data: figures by seed, nothing judged."""
        raise NotImplementedError

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        """The figure of each criterion, from the evidence alone."""
        raise NotImplementedError

    def show(self, evidence: Evidence) -> list[Exhibit]:
        """Tables and plots, from the evidence alone."""
        raise NotImplementedError


def judge(
    claim: type[Claim], figures: Mapping[str, Interval]
) -> tuple[dict[str, Outcome], Verdict]:
    """What becomes of each criterion, and of the claim."""
    outcomes = {name: each.outcome(figures[name]) for name, each in claim.criteria.items()}
    if "fails" in outcomes.values():
        return outcomes, "not supported here"
    return outcomes, "unclear" if "unclear" in outcomes.values() else "supported"
