"""What came out: the evidence, the figures weighed, the verdict; as plain data and back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from regard.config import plain
from regard.lab.claim import Claim, Evidence, Outcome, Verdict, judge
from regard.lab.figures import Exhibit
from regard.lab.intervals import Interval


@dataclass(frozen=True)
class Finding:
    claim: Claim  # with the settings that were used
    evidence: Evidence
    seconds: float
    machine: Mapping[str, Any]

    @property
    def figures(self) -> Mapping[str, Interval]:
        return self.claim.weigh(self.evidence)

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return judge(type(self.claim), self.figures)[0]

    @property
    def verdict(self) -> Verdict:
        return judge(type(self.claim), self.figures)[1]

    def show(self) -> list[Exhibit]:
        return self.claim.show(self.evidence)

    def to_plain(self) -> dict[str, Any]:
        """For JSON: the verdict and all it rests on."""
        figures, outcomes = self.figures, self.outcomes
        return {
            "claim": self.claim.kind(),
            "statement": self.claim.statement,
            "verdict": self.verdict,
            "criteria": {
                name: {
                    "says": each.says,
                    "line": each.line,
                    "found": _finite(figures[name]),
                    "outcome": outcomes[name],
                }
                for name, each in self.claim.criteria.items()
            },
            "settings": plain(self.claim),
            "evidence": self.evidence,
            "seconds": round(self.seconds, 1),
            "machine": dict(self.machine),
        }

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> "Finding":
        """The verdict is not read but computed again."""
        claim = Claim.model_validate(content["settings"])
        return cls(claim, content["evidence"], content["seconds"], content["machine"])


def _finite(found: Interval) -> dict[str, float | None]:
    """JSON knows no infinity: an end that is not known is none."""
    return {name: end if abs(end) < float("inf") else None for name, end in asdict(found).items()}
