"""Contract of every claim: its quick experiment runs, and its figures can be computed again."""

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from regard.lab import Finding, all_claims, report, run
from regard.lab.claim import Claim
from regard.lab.figures import Plot, draw

TINY = {"sizes": [4, 8], "steps": 2, "head_dim": 16, "seeds": 3}
QUICK = "no verdict: quick setting"
MACHINE: dict[str, Any] = {}


def planted(claim: type[Claim]) -> Any:
    """Return the claim's own test: evidence that supports it, and that fails each criterion."""
    path = Path(__file__).parent / "claims" / f"test_{claim.kind().replace('-', '_')}.py"
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numbers_differ() -> None:
    numbers = [claim.number for claim in all_claims()]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.kind())
def test_quick_experiments_give_figures_without_a_verdict(
    claim: type[Claim], tmp_path: Path
) -> None:
    finding = run(claim.kind(), quick=True)
    assert set(finding.intervals) == set(claim.criteria)
    assert (finding.verdict, finding.outcomes, finding.conclusion) == (None, {}, QUICK)
    report.write(finding, tmp_path)
    again = report.read(tmp_path / f"{claim.kind()}.json")
    assert str(again.intervals) == str(finding.intervals)  # as text: NaN does not equal itself
    assert again.verdict is None
    page = (tmp_path / f"{claim.kind()}.md").read_text("utf-8")
    assert claim.statement in page
    assert "No verdict: quick setting" in page
    assert QUICK in (tmp_path / "README.md").read_text("utf-8")
    for figure in finding.show():
        if isinstance(figure, Plot):
            assert draw(figure).startswith("<?xml")
        else:
            assert all(len(row) == len(figure.head) for row in figure.rows)


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.kind())
def test_every_claim_declares_its_texts_and_criteria(claim: type[Claim]) -> None:
    assert claim.title
    assert claim.statement.endswith(".")
    assert claim.experiment.endswith(".")
    assert claim.criteria
    for criterion in claim.criteria.values():
        assert criterion.threshold
    claim.model_validate(claim.quick)


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.kind())
def test_every_judged_criterion_can_hold_and_can_fail(claim: type[Claim]) -> None:
    module = planted(claim)
    judged = {name for name, c in claim.criteria.items() if c.by_construction is None}
    assert judged
    supported = Finding(module.CLAIM, module.SUPPORTED, 0.0, MACHINE)
    assert supported.verdict == "supported", (supported.outcomes, supported.intervals)
    assert {name for name, outcome in supported.outcomes.items() if outcome == "holds"} == judged
    assert set(module.FAILING) == judged
    for name, evidence in module.FAILING.items():
        finding = Finding(module.CLAIM, evidence, 0.0, MACHINE)
        assert (name, finding.outcomes[name]) == (name, "fails"), finding.intervals[name]
        assert finding.verdict == "not supported here"


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.kind())
@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_give_no_verdict(claim: type[Claim], seeds: int) -> None:
    module = planted(claim)
    settings = module.CLAIM.model_copy(update={"seeds": seeds})
    for evidence in (module.SUPPORTED, *module.FAILING.values()):
        finding = Finding(settings, evidence, 0.0, MACHINE)
        assert (finding.verdict, finding.outcomes) == (None, {})
        assert re.fullmatch(r"no verdict: \d seeds? to judge by, .*", finding.conclusion)


def test_findings_survive_json() -> None:
    finding = run("scaling", TINY)
    again = Finding.from_plain(json.loads(json.dumps(finding.to_plain())))
    assert again.intervals == finding.intervals
    assert (again.verdict, again.outcomes) == (finding.verdict, finding.outcomes)
    assert again.verdict is not None


@pytest.mark.parametrize("path", sorted(Path("docs/explanation/lab").glob("*.json")), ids=str)
def test_published_findings_have_the_published_verdicts(path: Path) -> None:
    finding = report.read(path)
    assert finding.verdict == json.loads(path.read_text("utf-8"))["verdict"]
    assert path.with_suffix(".md").read_text("utf-8") == report.page(finding)
