"""Verdicts on many heads from given evidence, and parts of the experiment."""

from typing import Any

import torch

from regard.lab import tasks
from regard.lab.claim import judge
from regard.lab.claims.heads import Spec


def evidence_of(one: float = 0.6, many: float = 0.99, slower: float = 1.0) -> dict[str, Any]:
    spec = Spec()
    trained = [
        {"seed": seed, "places": places, "heads": heads, "parameters": 1000, "curve": [2.0, 1.0]}
        | {"accuracy": (one if heads == 1 else many) - seed / 1000, "least": 0.4}
        for seed in range(3)
        for places in spec.places
        for heads in spec.heads
    ]
    seconds = {"1": [1.0, 1.1, 0.9, 1.0], "8": [slower * each for each in (1.0, 1.1, 0.91, 1.0)]}
    return {"operations": {"1": 100, "8": 100}, "seconds": seconds, "trained": trained}


def test_supported_where_heads_cost_nothing_and_help() -> None:
    assert judge(Spec, Spec().weigh(evidence_of()))[1] == "supported"


def test_not_supported_where_one_head_is_as_accurate() -> None:
    outcomes, verdict = judge(Spec, Spec().weigh(evidence_of(one=0.99)))
    assert (outcomes["better"], verdict) == ("fails", "not supported here")


def test_not_supported_where_many_heads_are_slower() -> None:
    outcomes, verdict = judge(Spec, Spec().weigh(evidence_of(slower=2.0)))
    assert (outcomes["time"], verdict) == ("fails", "not supported here")


def test_answer_is_the_values_of_the_keys_in_the_question() -> None:
    names, things, places = 5, 3, 2
    rows = tasks.several(names, things, places, 7, rows=50)
    assert int(rows.ids.max()) < tasks.several_symbols(names, things, places)
    for row in rows.ids.tolist():
        listed = {each // things: each % things for each in row[:names]}
        question, answer = row[-2] - names * things, row[-1] - names * things - names**places
        assert len(listed) == names
        assert [listed[question // names], listed[question % names]] == [
            answer // things,
            answer % things,
        ]
    assert rows.is_target.sum(1).tolist() == [1] * 50
    assert torch.equal(rows.ids, tasks.several(names, things, places, 7, rows=50).ids)
