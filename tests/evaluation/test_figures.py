"""Figures of a classifier: readable with two labels and with very many."""

import torch

from regard.evaluation.classification import ClassificationReport, PredictionCounter
from regard.evaluation.figures import MAX_LABELS, figures


def report(labels: int, multi_label: bool = False) -> ClassificationReport:
    generator = torch.Generator().manual_seed(0)
    names = [f"label {number} $x_1$" for number in range(labels)]
    tally = PredictionCounter(names, multi_label)
    logits = torch.randn(300, labels, generator=generator)
    if multi_label:
        actual = (torch.rand(300, labels, generator=generator) < 0.3).long()
        tally.add(torch.nn.functional.logsigmoid(logits + 2 * actual), actual)
    else:
        tally.add(logits.log_softmax(-1), torch.randint(labels, (300,), generator=generator))
    return tally.report()


def test_confusion_matrix_of_few_labels_shows_every_count() -> None:
    scores = report(2)
    svgs = figures(scores)
    assert sorted(svgs) == ["calibration.svg", "confusion.svg"]
    for count in scores.confusion.values():
        assert f">{count:,}<" in svgs["confusion.svg"]
    assert "label 1 $x_1$" in svgs["confusion.svg"]  # and no formula
    assert "most confused" not in svgs["confusion.svg"]
    error = f"Expected calibration error {scores.calibration_error:.1%}"
    assert error in svgs["calibration.svg"]
    assert figures(scores) == svgs


def test_confusion_matrix_of_many_labels_shows_the_most_confused() -> None:
    svgs = figures(report(400))["confusion.svg"]
    assert f"the {MAX_LABELS} most confused of 400 labels" in svgs
    assert svgs.count("label ") - svgs.count("label<") <= 3 * (2 * MAX_LABELS + 3)


def test_multi_label_confusion_matrix_has_a_column_for_missed_labels() -> None:
    assert ">missed<" in figures(report(3, multi_label=True))["confusion.svg"]
    assert ">missed<" not in figures(report(3))["confusion.svg"]
