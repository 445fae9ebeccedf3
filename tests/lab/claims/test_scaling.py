"""Verdicts on scaling from constructed evidence, and parts of the experiment."""

from typing import Any

from regard.lab.claim import judge
from regard.lab.claims.scaling import VARIANTS, Spec


def evidence_of(top: float, gradient: float, worse: float) -> dict[str, Any]:
    products = [
        {
            "seed": seed,
            "size": size,
            "variance": size * (1 + 0.001 * seed),
            "top": top + 0.001 * seed,
            "top_divided": 0.1 + 0.001 * seed,
            "gradient": gradient + 0.001 * seed,
            "gradient_divided": 0.2,
        }
        for seed in range(3)
        for size in Spec().sizes
    ]
    curves = {VARIANTS[0]: [[1.0, 0.5]] * 3, VARIANTS[1]: [[1.0 + worse, 0.5 + worse]] * 3}
    return {"products": products, "curves": curves}


def test_supported_where_scores_saturate_and_training_suffers() -> None:
    intervals = Spec().weigh(evidence_of(top=0.95, gradient=0.05, worse=0.1))
    assert judge(Spec, intervals)[1] == "supported"


def test_not_supported_where_training_is_better_without() -> None:
    intervals = Spec().weigh(evidence_of(top=0.95, gradient=0.05, worse=-0.1))
    outcomes, verdict = judge(Spec, intervals)
    assert (outcomes["slower"], verdict) == ("fails", "not supported here")


def test_not_supported_where_nothing_saturates() -> None:
    intervals = Spec().weigh(evidence_of(top=0.2, gradient=0.05, worse=0.1))
    assert judge(Spec, intervals)[0]["saturated"] == "fails"
