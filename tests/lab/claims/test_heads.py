"""Verdicts on many heads from constructed evidence, and parts of the experiment."""

from typing import Any

import torch

from regard.lab import tasks
from regard.lab.claims.heads import Spec


def evidence_of(one: float = 0.6, many: float = 0.99, slower: float = 1.0) -> dict[str, Any]:
    spec = Spec()
    trained = [
        {"seed": seed, "keys": keys, "heads": heads, "parameters": 1000, "curve": [2.0, 1.0]}
        | {"accuracy": (one if heads == 1 else many) - seed / 1000, "least": 0.4}
        for seed in range(3)
        for keys in spec.keys
        for heads in spec.heads
    ]
    seconds = {
        "1": [1.0, 1.1, 0.9, 1.0],
        "8": [slower * second for second in (1.0, 1.1, 0.91, 1.0)],
    }
    return {"operations": {"1": 100, "8": 100}, "seconds": seconds, "trained": trained}


CLAIM, SUPPORTED = Spec(), evidence_of()
FAILING = {
    "time": evidence_of(slower=2.0),
    "learned": evidence_of(one=0.5, many=0.7),
    "better": evidence_of(one=0.99),
}


def test_answer_is_the_values_of_the_keys_in_the_question() -> None:
    keys, values, queries = 5, 3, 2
    rows = tasks.multi_query_recall(keys, values, queries, 7, rows=50)
    assert int(rows.ids.max()) < tasks.multi_query_vocabulary(keys, values, queries)
    for row in rows.ids.tolist():
        table = {pair // values: pair % values for pair in row[:keys]}
        question, answer = row[-2] - keys * values, row[-1] - keys * values - keys**queries
        assert len(table) == keys
        assert [table[question // keys], table[question % keys]] == [
            answer // values,
            answer % values,
        ]
    assert rows.is_target.sum(1).tolist() == [1] * 50
    assert torch.equal(rows.ids, tasks.multi_query_recall(keys, values, queries, 7, rows=50).ids)
