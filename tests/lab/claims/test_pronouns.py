"""The verdict on pronouns follows from the evidence, both ways."""

from typing import Any

import pytest

from regard.lab.claim import judge
from regard.lab.claims.pronouns import LOOKS, Spec


def planted(
    models: int = 3, lost: float = 0.4, others: float = 0.01, chance: float = 0.02
) -> dict[str, Any]:
    def model(seed: int) -> dict[str, Any]:
        missed = round(200 * lost) + seed
        step = {
            "head": "cross.1.3",
            "pronouns_lost": [1.0] * missed + [0.0] * (200 - missed),
            "others_lost": [others] * 200,
            "by_chance": [chance, chance + 0.01],
            "looks": dict.fromkeys(LOOKS, 0.5),
        }
        return {"heads": 24, "right": [1.0] * 198 + [0.0] * 2, "steps": [step] * 4}

    return {"models": [model(seed) for seed in range(models)]}


@pytest.mark.parametrize("models", [1, 3])
def test_supported_where_pronouns_break_and_other_words_do_not(models: int) -> None:
    assert judge(Spec, Spec().weigh(planted(models)))[1] == "supported"


@pytest.mark.parametrize(
    ("criterion", "evidence"),
    [
        ("breaks", planted(lost=0.02)),
        ("stands out", planted(chance=0.4)),
        ("specific", planted(others=0.4)),
        ("specific", planted(models=1, others=0.4)),
    ],
)
def test_not_supported_where_the_heads_are_not_special(
    criterion: str, evidence: dict[str, Any]
) -> None:
    outcomes, verdict = judge(Spec, Spec().weigh(evidence))
    assert (outcomes[criterion], verdict) == ("fails", "not supported here")


def test_each_step_is_shown() -> None:
    table, plot = Spec().show(planted())
    assert len(table.rows) == 3 * 4  # type: ignore[union-attr]
    assert all(sorted(line) == [1, 2, 3, 4] for line in plot.series.values())  # type: ignore[union-attr]
