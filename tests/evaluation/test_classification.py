"""Scores of classifiers: parity with scikit-learn and scipy, whatever the batch size."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, log_loss
from sklearn.metrics import precision_recall_fscore_support as by_label

from regard.evaluation.calibration import fit_temperature
from regard.evaluation.classification import (
    MISSED,
    ClassificationReport,
    PredictionCounter,
    accuracy,
    interval,
)

NAMES = ("a", "b", "c", "d")


def test_accuracy() -> None:
    assert accuracy(["1", "0", "1"], ["1", "1", "1"]) == pytest.approx(2 / 3)


@given(of=st.integers(1, 3000), data=st.data())
def test_interval_equals_wilsons(of: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, of))
    expected = binomtest(correct, of).proportion_ci(method="wilson")
    assert interval(correct, of) == pytest.approx((expected.low, expected.high), abs=1e-6)


def random_predictions(
    texts: int, multi_label: bool, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are mostly right, and the actual labels; label d never occurs."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(texts, len(NAMES), generator=generator)
    if multi_label:
        actual = (torch.rand(texts, len(NAMES), generator=generator) < 0.4).long()
        actual[:, 3] = 0
        return logits + 1.5 * actual - 0.7, actual
    actual = torch.randint(len(NAMES) - 1, (texts,), generator=generator)
    logits[torch.arange(texts), actual] += 1.5
    return logits, actual


def report_of(logits: torch.Tensor, actual: torch.Tensor, batch: int) -> ClassificationReport:
    multi_label = actual.dim() == 2
    tally = PredictionCounter(NAMES, multi_label)
    for batch_logits, labels in zip(logits.split(batch), actual.split(batch), strict=True):
        log_probs = (
            torch.nn.functional.logsigmoid(batch_logits)
            if multi_label
            else batch_logits.log_softmax(-1)
        )
        tally.add(log_probs, labels)
    return tally.report()


@given(texts=st.integers(1, 60), seed=st.integers(0, 99), batch=st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_single_label_scores_equal_scikit_learn(texts: int, seed: int, batch: int) -> None:
    logits, actual = random_predictions(texts, False, seed)
    report, predicted = report_of(logits, actual, batch), logits.argmax(-1)
    assert report.texts == texts
    assert report.accuracy == pytest.approx(accuracy_score(actual, predicted))
    assert report.micro_f1 == pytest.approx(report.accuracy)
    assert report.low <= report.accuracy <= report.high
    options = {"zero_division": np.nan}
    macro = f1_score(actual, predicted, average="macro", **options)
    assert report.macro_f1 == pytest.approx(macro)
    numbers = list(range(len(NAMES)))
    table = confusion_matrix(actual, predicted, labels=numbers)
    ours = [[report.confusion.get((a, b), 0) for b in numbers] for a in numbers]
    assert ours == table.tolist()
    expected = by_label(actual, predicted, labels=numbers, zero_division=0)
    for scores, precision, recall, f1, count in zip(report.labels, *expected, strict=True):
        assert (scores.precision, scores.recall) == pytest.approx((precision, recall))
        assert (scores.f1, scores.texts) == (pytest.approx(f1), count)
    loss = log_loss(actual, logits.double().softmax(-1), labels=numbers)
    assert report.loss == pytest.approx(loss, rel=1e-5)


@given(texts=st.integers(1, 60), seed=st.integers(0, 99), batch=st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_multi_label_scores_equal_scikit_learn(texts: int, seed: int, batch: int) -> None:
    logits, actual = random_predictions(texts, True, seed)
    report, predicted = report_of(logits, actual, batch), (logits >= 0).long()
    assert report.accuracy == pytest.approx(accuracy_score(actual, predicted))
    macro = f1_score(actual, predicted, average="macro", zero_division=np.nan)
    assert report.macro_f1 == pytest.approx(0 if np.isnan(macro) else macro)
    micro = f1_score(actual, predicted, average="micro", zero_division=0)
    assert report.micro_f1 == pytest.approx(micro)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, actual.float())
    assert report.loss == pytest.approx(float(loss), rel=1e-5)
    for label, scores in enumerate(report.labels):
        correct = report.confusion.get((label, label), 0)
        assert correct + report.confusion.get((label, MISSED), 0) == scores.texts


def test_most_frequent_confusion_comes_first() -> None:
    logits = torch.eye(4)[torch.tensor([0, 1, 1, 1, 2])] * 9
    report = report_of(logits, torch.tensor([0, 0, 0, 1, 1]), batch=2)
    assert report.most_confused() == [("a", "b", 2), ("b", "c", 1)]
    assert report.scores["labels"]["a"]["recall"] == pytest.approx(1 / 3)
    assert "confusion" not in report.scores


def test_calibration_error_equals_its_definition() -> None:
    """Nine of ten texts right, with a confidence of 70 % each."""
    confident = torch.tensor([0.7, 0.1, 0.1, 0.1]).log().expand(10, -1)
    tally = PredictionCounter(NAMES, multi_label=False)
    tally.add(confident, torch.tensor([0] * 9 + [1]))
    report = tally.report()
    assert report.calibration_error == pytest.approx(0.2, abs=1e-6)
    (only,) = report.bins
    assert (only.decisions, only.accuracy) == (10, 0.9)
    assert only.confidence == pytest.approx(0.7)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_fitted_temperature_recovers_the_true_one(multi_label: bool, temperature: float) -> None:
    """Labels are drawn from the logits, which are then multiplied by the true temperature."""
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(20_000, 3, generator=generator)
    if multi_label:
        actual = torch.bernoulli(logits.sigmoid(), generator=generator).long()
    else:
        actual = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
    assert fit_temperature(logits * temperature, actual) == pytest.approx(temperature, rel=0.05)


def test_few_texts_without_errors_do_not_give_certainty() -> None:
    logits = torch.eye(2).repeat(10, 1) * 4
    actual = torch.tensor([0, 1] * 10)
    tempered = logits / fit_temperature(logits, actual)
    assert float(tempered.softmax(-1).max()) == pytest.approx(21 / 22, abs=1e-3)
