"""Verdicts on soft lookup from constructed evidence, and parts of the experiment."""

from typing import Any

import torch

from regard.lab.claims.lookup import CASES, MEANS, Spec, _means, dot_products
from regard.lab.ratings import Ratings


def evidence_of(
    weight: float = 0.9, mixture: float = 0.97, error: float = 0.9, returned: float = 0.95
) -> dict[str, Any]:
    tables = [
        {"weight": weight + seed / 1000, "returned": returned, "mixture": mixture}
        | {which: [0.5] * 11 for which in ("first", "second")}
        for seed in range(3)
    ]
    errors = [
        {name: 1.0 + index / 10 for index, name in enumerate(MEANS)}
        | {"dot products": error + seed / 1e3}
        for seed in range(3)
    ]
    contributions = {name: effect for name, (_, _, effect) in CASES.items()}
    return {"tables": tables, "errors": errors, "contributions": contributions, "ratings": 1000}


CLAIM, SUPPORTED = Spec(), evidence_of()
FAILING = {
    "finds": evidence_of(weight=0.3),
    "returns": evidence_of(returned=0.5),
    "mixes": evidence_of(mixture=0.71),
    "predicts": evidence_of(error=1.0),
}


def test_factors_are_multiplied_and_added() -> None:
    users, films = torch.randn(5, 3), torch.randn(5, 3)
    expected = torch.stack([a @ b for a, b in zip(users, films, strict=True)])
    torch.testing.assert_close(dot_products(users, films), expected)


def test_means_are_those_of_the_training_ratings() -> None:
    train = Ratings(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), torch.tensor([5.0, 3.0, 1.0]))
    held_out = Ratings(torch.tensor([1, 2]), torch.tensor([1, 2]), torch.tensor([0.0, 0.0]))
    predictions = {
        name: prediction.tolist() for name, prediction in _means(train, held_out, (3, 3)).items()
    }
    assert predictions == {
        "of all": [3.0, 3.0],
        "of the user": [1.0, 3.0],  # the third user and the third film have no ratings
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
