"""The result of an experiment: evidence, intervals and verdict, to plain data and back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from regard.config import plain
from regard.lab.claim import MIN_SEEDS, Claim, Evidence, Outcome, Verdict, judge
from regard.lab.figures import Figure
from regard.lab.intervals import Interval


@dataclass(frozen=True)
class Finding:
    """The evidence for a claim and the verdict that follows, if there are enough repetitions."""

    claim: Claim  # with the settings that were used
    evidence: Evidence
    seconds: float
    machine: Mapping[str, Any]
    quick: bool = False

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """The interval of each criterion."""
        return self.claim.weigh(self.evidence)

    @property
    def no_verdict(self) -> str | None:
        """The reason why there is no verdict; None if there is one."""
        if self.quick:
            return "no verdict: quick setting"
        count = self.claim.repetitions(self.evidence)
        if count >= MIN_SEEDS:
            return None
        seeds = "1 seed" if count == 1 else f"{count} seeds"
        return f"no verdict: {seeds} to judge by, and {MIN_SEEDS} are needed"

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcome of each criterion; empty without a verdict."""
        return {} if self.no_verdict else judge(type(self.claim), self.intervals)[0]

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the claim; None for a quick setting, or too few repetitions."""
        return None if self.no_verdict else judge(type(self.claim), self.intervals)[1]

    @property
    def conclusion(self) -> str:
        """The verdict as text, such as "Verdict: supported"."""
        return self.no_verdict or f"Verdict: {self.verdict}"

    def show(self) -> list[Figure]:
        """Return tables and plots of the evidence."""
        return self.claim.show(self.evidence)

    def to_plain(self) -> dict[str, Any]:
        """Return the verdict and its evidence for JSON."""
        intervals, outcomes = self.intervals, self.outcomes
        return {
            "claim": self.claim.kind(),
            "statement": self.claim.statement,
            "verdict": self.verdict,
            "quick": self.quick,
            "criteria": {
                name: {
                    "description": criterion.description,
                    "threshold": criterion.threshold,
                    "interval": _finite(intervals[name]),
                    "outcome": outcomes.get(name),
                }
                for name, criterion in self.claim.criteria.items()
            },
            "settings": plain(self.claim),
            "evidence": self.evidence,
            "seconds": round(self.seconds, 1),
            "machine": dict(self.machine),
        }

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> "Finding":
        """Read what `to_plain` wrote; intervals and verdict are computed again."""
        claim = Claim.model_validate(content["settings"])
        quick = content.get("quick", False)
        return cls(claim, content["evidence"], content["seconds"], content["machine"], quick)


def _finite(measured: Interval) -> dict[str, float | None]:
    """Return an interval for JSON, with None for an infinite end."""
    ends = asdict(measured).items()
    return {name: end if abs(end) < float("inf") else None for name, end in ends}
