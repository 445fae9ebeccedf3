"""Verdicts on scaling from constructed evidence, and parts of the experiment."""

from typing import Any

from regard.lab.claims.scaling import VARIANTS, Spec


def evidence_of(
    variance: float = 1.0,
    top: float = 0.95,
    top_divided: float = 0.1,
    gradient: float = 0.05,
    worse: float = 0.1,
) -> dict[str, Any]:
    products = [
        {
            "seed": seed,
            "size": size,
            "variance": variance * size * (1 + 0.001 * seed),
            "top": top + 0.001 * seed,
            "top_divided": top_divided + 0.001 * seed,
            "gradient": gradient + 0.001 * seed,
            "gradient_divided": 0.2,
        }
        for seed in range(3)
        for size in Spec().sizes
    ]
    curves = {VARIANTS[0]: [[1.0, 0.5]] * 3, VARIANTS[1]: [[1.0 + worse, 0.5 + worse]] * 3}
    return {"products": products, "curves": curves}


CLAIM, SUPPORTED = Spec(), evidence_of()
FAILING = {
    "variance": evidence_of(variance=2.0),
    "saturated": evidence_of(top=0.2),
    "spread": evidence_of(top_divided=0.9),
    "starved": evidence_of(gradient=0.3),
    "slower": evidence_of(worse=-0.1),
}
