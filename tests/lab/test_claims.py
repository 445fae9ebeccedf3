"""The contract of every claim: its quick experiment runs, and a verdict follows from it alone."""

import json
from pathlib import Path

import pytest

from regard.lab import Finding, all_claims, report, run
from regard.lab.claim import Claim, judge
from regard.lab.figures import Plot, draw


def test_numbers_are_those_of_the_lecture() -> None:
    numbers = [each.number for each in all_claims()]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.kind())
def test_a_quick_look_gives_a_verdict_that_can_be_computed_again(
    claim: type[Claim], tmp_path: Path
) -> None:
    finding = run(claim.kind(), quick=True)
    assert set(finding.figures) == set(claim.criteria)
    assert finding.verdict == judge(claim, finding.figures)[1]
    report.write(finding, tmp_path)
    again = report.read(tmp_path / f"{claim.kind()}.json")
    assert (again.verdict, again.outcomes) == (finding.verdict, finding.outcomes)
    page = (tmp_path / f"{claim.kind()}.md").read_text("utf-8")
    assert claim.statement in page
    assert f"Verdict: {finding.verdict}" in page
    for exhibit in finding.show():
        if isinstance(exhibit, Plot):
            assert draw(exhibit).startswith("<?xml")
        else:
            assert all(len(row) == len(exhibit.head) for row in exhibit.rows)


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.kind())
def test_every_claim_says_what_it_is(claim: type[Claim]) -> None:
    assert claim.title
    assert claim.statement.endswith(".")
    assert claim.experiment.endswith(".")
    assert claim.criteria
    for criterion in claim.criteria.values():
        assert criterion.line
    claim.model_validate(claim.quick)


def test_evidence_survives_json() -> None:
    finding = run("scaling", {"sizes": [4, 8], "steps": 2, "key_size": 16, "seeds": 2})
    kept = json.loads(json.dumps(finding.to_plain()))
    assert Finding.from_plain(kept).figures == finding.figures
