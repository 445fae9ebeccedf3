"""Pictures of a classifier: legible with two labels and with very many."""

import torch

from regard.evaluation.classification import Report, Tally
from regard.evaluation.pictures import MOST, pictures


def report(labels: int, several: bool = False) -> Report:
    chance = torch.Generator().manual_seed(0)
    names = [f"label {number} $x_1$" for number in range(labels)]
    tally = Tally(names, several)
    logits = torch.randn(300, labels, generator=chance)
    if several:
        actual = (torch.rand(300, labels, generator=chance) < 0.3).long()
        tally.add(torch.nn.functional.logsigmoid(logits + 2 * actual), actual)
    else:
        tally.add(logits.log_softmax(-1), torch.randint(labels, (300,), generator=chance))
    return tally.report()


def test_all_of_few_labels_are_drawn_with_their_numbers() -> None:
    found = report(2)
    drawn = pictures(found)
    assert sorted(drawn) == ["calibration.svg", "confusion.svg"]
    for count in found.confusion.values():
        assert f">{count:,}<" in drawn["confusion.svg"]
    assert "label 1 $x_1$" in drawn["confusion.svg"]  # and no formula
    assert "most confused" not in drawn["confusion.svg"]
    error = f"Expected calibration error {found.calibration_error:.1%}"
    assert error in drawn["calibration.svg"]
    assert pictures(found) == drawn


def test_of_very_many_labels_the_most_confused_are_drawn_and_it_is_said() -> None:
    drawn = pictures(report(400))["confusion.svg"]
    assert f"the {MOST} most confused of 400 labels" in drawn
    assert drawn.count("label ") - drawn.count("label given") <= 3 * (2 * MOST + 3)


def test_what_was_missed_of_several_labels_has_a_column() -> None:
    assert ">missed<" in pictures(report(3, several=True))["confusion.svg"]
    assert ">missed<" not in pictures(report(3))["confusion.svg"]
