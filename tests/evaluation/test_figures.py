"""Figures of a classifier: readable with two labels and with very many."""

import torch

from regard.evaluation.classification import ClassificationReport, PredictionCounter
from regard.evaluation.figures import MAX_LABELS, figures


def report(labels: int, multi_label: bool = False) -> ClassificationReport:
    chance = torch.Generator().manual_seed(0)
    names = [f"label {number} $x_1$" for number in range(labels)]
    tally = PredictionCounter(names, multi_label)
    logits = torch.randn(300, labels, generator=chance)
    if multi_label:
        actual = (torch.rand(300, labels, generator=chance) < 0.3).long()
        tally.add(torch.nn.functional.logsigmoid(logits + 2 * actual), actual)
    else:
        tally.add(logits.log_softmax(-1), torch.randint(labels, (300,), generator=chance))
    return tally.report()


def test_confusion_matrix_of_few_labels_shows_every_count() -> None:
    found = report(2)
    drawn = figures(found)
    assert sorted(drawn) == ["calibration.svg", "confusion.svg"]
    for count in found.confusion.values():
        assert f">{count:,}<" in drawn["confusion.svg"]
    assert "label 1 $x_1$" in drawn["confusion.svg"]  # and no formula
    assert "most confused" not in drawn["confusion.svg"]
    error = f"Expected calibration error {found.calibration_error:.1%}"
    assert error in drawn["calibration.svg"]
    assert figures(found) == drawn


def test_confusion_matrix_of_many_labels_shows_the_most_confused() -> None:
    drawn = figures(report(400))["confusion.svg"]
    assert f"the {MAX_LABELS} most confused of 400 labels" in drawn
    assert drawn.count("label ") - drawn.count("label<") <= 3 * (2 * MAX_LABELS + 3)


def test_multi_label_confusion_matrix_has_a_column_for_missed_labels() -> None:
    assert ">missed<" in figures(report(3, multi_label=True))["confusion.svg"]
    assert ">missed<" not in figures(report(3))["confusion.svg"]
