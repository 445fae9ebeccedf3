"""Verdicts on tree positions from constructed evidence, and parts of the experiment."""

from pathlib import Path
from typing import Any

import pytest

from regard.errors import ConfigError, DataError
from regard.lab.claims.syntax import (
    ARMS,
    BLANK,
    BOTH,
    LINEAR,
    NOUNS,
    RANDOM,
    Spec,
    _generator,
    _random_tree,
)
from regard.lab.run import claim_named, run

FINITE = "VerbForm=Fin|Person=3|Number="
NEAR = f"""1\tRome\t_\tPROPN\t_\tNumber=Sing\t2\tnsubj\t_\t_
2\tburns\t_\tVERB\t_\t{FINITE}Sing\t0\troot\t_\t_

"""
FAR = f"""1\tkeys\t_\tNOUN\t_\tNumber=Plur\t3\tnsubj\t_\t_
2\tRome\t_\tPROPN\t_\tNumber=Sing\t1\tnmod\t_\t_
3\tburn\t_\tVERB\t_\t{FINITE}Plur\t0\troot\t_\t_

"""


def evidence_of(**accuracies: float) -> dict[str, Any]:
    by_arm = {arm: accuracies.get(name, 0.7) for arm, name in zip(ARMS, "labd", strict=True)}
    runs = [
        {"arm": arm, "seed": seed, "accuracy": value, "attraction_accuracy": value + 0.001 * seed}
        for arm, value in by_arm.items()
        for seed in range(3)
    ]
    tested = {"tested": 10_000, "attracted": 1000}
    return {"runs": [{**run, "loss": 0.1, "parameters": 10} for run in runs], **tested}


CLAIM, SUPPORTED = Spec(), evidence_of(a=0.9)
FAILING = {
    "gain": evidence_of(a=0.6),
    "attracted": evidence_of(a=0.6),
    "random": evidence_of(a=0.9, d=0.8),
}


def test_models_are_in_order() -> None:
    assert list(ARMS) == [LINEAR, BOTH, list(ARMS)[2], RANDOM]


def test_subject_depends_on_the_verb_and_decides_its_number() -> None:
    rows = _generator(8)(3, 200)
    assert list(rows) == list(_generator(8)(3, 200))
    before = 0
    for row in rows:
        verb = row.ids.index(BLANK)
        (subject,) = [w for w, head in enumerate(row.heads) if head == verb and w != verb]
        assert row.ids[subject] == NOUNS + row.plural
        assert row.attracted == (row.ids[verb - 1] == NOUNS + 1 - row.plural)
        before += subject == verb - 1
        tree = _random_tree(row)
        assert sum(word == head for word, head in enumerate(tree)) == 1
    assert 80 < before < 150
    assert 0.3 < sum(row.plural for row in rows) / 200 < 0.7


def test_both_treebanks_are_required_and_must_have_verbs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give both treebanks, or neither"):
        claim_named("syntax", {"train": "a.conllu"})
    (tmp_path / "a.conllu").write_text("1\tHello\t_\tX\t_\t_\t0\troot\t_\t_\n")
    both = {"train": str(tmp_path / "a.conllu"), "test": str(tmp_path / "a.conllu")}
    with pytest.raises(DataError, match=r"a\.conllu: there is no verb"):
        run("syntax", both, quick=True)


def test_treebank_gives_evidence(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text((NEAR + FAR) * 3)
    both = {"train": str(tmp_path / "a.conllu"), "test": str(tmp_path / "a.conllu")}
    finding = run("syntax", {**both, "steps": 2}, quick=True)
    assert finding.evidence["tested"] == 6
    assert finding.evidence["attracted"] == 3
    assert finding.evidence["plural"] == 0.5
