"""Verdicts on the bottleneck from constructed evidence, and parts of the experiment."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import ConfigError, DataError
from regard.lab.claims.bottleneck import (
    ARMS,
    TRANSFORMER,
    WITH,
    WITHOUT,
    Spec,
    _joined,
    _sized,
    _split,
    read_pairs,
)
from regard.models.base import parameter_count


def evidence_of(bleu: dict[str, list[float]], larger: float = 1.0) -> dict[str, Any]:
    """Return evidence of three seeds that differ a little."""
    arms = {
        arm: {
            "parameters": [round(1000 * (larger if arm == WITH else 1.0))] * 3,
            "bleu": [[score + 0.1 * seed for score in bleu[arm]] for seed in range(3)],
            "losses": [[3.0, 1.0]] * 3,
            "steps": 2,
        }
        for arm in ARMS
    }
    return {"arms": arms, "lengths": [[8.0, 15.0, 25.0, 34.0]] * 3}


FLAT, FALLS = [60.0, 58.0, 55.0, 52.0], [50.0, 30.0, 15.0, 8.0]
LOW, HIGH = [5.0, 4.0, 3.5, 3.0], [50.0, 40.0, 35.0, 30.0]  # the same relative loss on long lines
CLAIM = Spec()
SUPPORTED = evidence_of({WITHOUT: FALLS, WITH: FLAT, TRANSFORMER: FLAT})
FAILING = {
    "fair": evidence_of({WITHOUT: FALLS, WITH: FLAT, TRANSFORMER: FLAT}, larger=1.2),
    "long": evidence_of({WITHOUT: FLAT, WITH: FLAT, TRANSFORMER: FLAT}),
    "kept": evidence_of({WITHOUT: LOW, WITH: HIGH, TRANSFORMER: FLAT}),
    "transformer": evidence_of({WITHOUT: FALLS, WITH: FLAT, TRANSFORMER: FALLS}),
}


@pytest.mark.parametrize(("vocabulary", "parameters"), [(400, 60_000), (1000, 400_000)])
def test_models_have_equal_parameters(vocabulary: int, parameters: int) -> None:
    specs = _sized(vocabulary, parameters)
    counts = [parameter_count(spec.build(vocabulary)) for spec in specs.values()]
    assert max(counts) <= 1.05 * min(counts)
    assert min(counts) > 0.85 * parameters


def test_training_and_test_pairs_are_disjoint() -> None:
    pairs = [(f"s{n % 70}", f"t{n % 50}") for n in range(300)]
    train, test = _split(pairs, 200, np.random.default_rng(0))
    for side in (0, 1):
        assert not {pair[side] for pair in train} & {pair[side] for pair in test}


def test_joined_lines_match_on_both_sides() -> None:
    pairs = [(str(n), f"-{n}") for n in range(20)]
    source, target = _joined(pairs, 4, np.random.default_rng(0))
    assert [f"-{word}" for word in source.split()] == target.split()
    assert len(source.split()) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("un\tone\ndeux\n", "line 2: wrong columns"),
        ("un\tone\n\ttwo\n", "line 2: a side has no text"),
        ("", "no pairs"),
        ("un\tone\n", "too few"),
    ],
)
def test_errors_name_the_file(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        _split(read_pairs(path), 10, np.random.default_rng(0))


def test_empty_groups_are_refused() -> None:
    with pytest.raises(ConfigError, match="no line of the test has 501 or more source words"):
        Spec(edges=(1, 500))._grouped([("un", "one"), ("un deux", "one two")])
