"""Verdicts on soft lookup from given evidence, and parts of the experiment."""

from typing import Any

import pytest
import torch

from regard.lab.claim import judge
from regard.lab.claims.lookup import CASES, MEANS, Spec, _means, likeness
from regard.lab.ratings import Ratings


def evidence_of(weight: float = 0.9, mixture: float = 0.97, error: float = 0.9) -> dict[str, Any]:
    tables = [
        {"weight": weight + seed / 1000, "returned": 0.95, "mixture": mixture}
        | {which: [0.5] * 11 for which in ("first", "second")}
        for seed in range(3)
    ]
    errors = [
        {name: 1.0 + at / 10 for at, name in enumerate(MEANS)}
        | {"dot products": error + seed / 1e3}
        for seed in range(3)
    ]
    added = {name: adds for name, (_, _, adds) in CASES.items()}
    return {"tables": tables, "errors": errors, "added": added, "ratings": 1000}


def test_supported_where_lookup_and_dot_products_work() -> None:
    assert judge(Spec, Spec().weigh(evidence_of()))[1] == "supported"


@pytest.mark.parametrize(
    ("criterion", "evidence"),
    [
        ("finds", evidence_of(weight=0.3)),
        ("mixes", evidence_of(mixture=0.71)),
        ("predicts", evidence_of(error=1.0)),
        ("cases", evidence_of() | {"added": dict.fromkeys(CASES, 1.0)}),
    ],
)
def test_not_supported_where_one_criterion_fails(criterion: str, evidence: dict[str, Any]) -> None:
    outcomes, verdict = judge(Spec, Spec().weigh(evidence))
    assert (outcomes[criterion], verdict) == ("fails", "not supported here")


def test_likeness_is_the_dot_product() -> None:
    tastes, traits = torch.randn(5, 3), torch.randn(5, 3)
    expected = torch.stack([a @ b for a, b in zip(tastes, traits, strict=True)])
    torch.testing.assert_close(likeness(tastes, traits), expected)


def test_means_are_those_of_the_known_ratings() -> None:
    known = Ratings(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), torch.tensor([5.0, 3.0, 1.0]))
    asked = Ratings(torch.tensor([1, 2]), torch.tensor([1, 2]), torch.tensor([0.0, 0.0]))
    found = {name: guess.tolist() for name, guess in _means(known, asked, (3, 3)).items()}
    assert found == {
        "of all": [3.0, 3.0],
        "of the person": [1.0, 3.0],  # nothing is known of the third of either side
        "of the film": [3.0, 3.0],
        "of both": [1.0, 3.0],
    }


def test_ratings_of_a_file_are_used(tmp_path: Any) -> None:
    from regard.lab import run

    path = tmp_path / "u.data"
    path.write_text("".join(f"{i % 20}\t{i // 20}\t{1 + i % 5}\t0\n" for i in range(200)), "utf-8")
    finding = run("lookup", {"ratings": path, "steps": 2, "rating_steps": 2, "seeds": 2})
    assert finding.evidence["ratings"] == 200
    assert any("u.data" in figure.title for figure in finding.show())
