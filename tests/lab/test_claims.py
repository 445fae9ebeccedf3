"""Contract of every claim: its quick experiment runs, and its figures can be computed again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from regard.lab import Finding, all_claims, report, run
from regard.lab.claim import Claim, judge
from regard.lab.figures import Plot, draw
from regard.lab.finding import NO_VERDICT

TINY = {"sizes": [4, 8], "steps": 2, "head_dim": 16, "seeds": 2}


def test_numbers_differ() -> None:
    numbers = [claim.number for claim in all_claims()]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.kind())
def test_quick_experiments_give_figures_without_a_verdict(
    claim: type[Claim], tmp_path: Path
) -> None:
    finding = run(claim.kind(), quick=True)
    assert set(finding.intervals) == set(claim.criteria)
    assert (finding.verdict, finding.outcomes, finding.conclusion) == (None, {}, NO_VERDICT)
    report.write(finding, tmp_path)
    again = report.read(tmp_path / f"{claim.kind()}.json")
    assert str(again.intervals) == str(finding.intervals)  # as text: NaN does not equal itself
    assert again.verdict is None
    page = (tmp_path / f"{claim.kind()}.md").read_text("utf-8")
    assert claim.statement in page
    assert "No verdict: quick setting" in page
    assert NO_VERDICT in (tmp_path / "README.md").read_text("utf-8")
    for figure in finding.show():
        if isinstance(figure, Plot):
            assert draw(figure).startswith("<?xml")
        else:
            assert all(len(row) == len(figure.head) for row in figure.rows)
    # The same evidence from full settings would have a verdict.
    full = replace(finding, quick=False)
    assert full.verdict == judge(claim, finding.intervals)[1]
    assert set(full.outcomes) == set(claim.criteria)


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.kind())
def test_every_claim_declares_its_texts_and_criteria(claim: type[Claim]) -> None:
    assert claim.title
    assert claim.statement.endswith(".")
    assert claim.experiment.endswith(".")
    assert claim.criteria
    for criterion in claim.criteria.values():
        assert criterion.threshold
    claim.model_validate(claim.quick)


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
