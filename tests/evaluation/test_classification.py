"""Scores of classifiers: as scikit-learn and scipy find them, batch by batch or all at once."""

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
    right = data.draw(st.integers(0, of))
    expected = binomtest(right, of).proportion_ci(method="wilson")
    assert interval(right, of) == pytest.approx((expected.low, expected.high), abs=1e-6)


def judged(texts: int, multi_label: bool, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are mostly right, and the actual labels; label d never occurs."""
    chance = torch.Generator().manual_seed(seed)
    logits = torch.randn(texts, len(NAMES), generator=chance)
    if multi_label:
        actual = (torch.rand(texts, len(NAMES), generator=chance) < 0.4).long()
        actual[:, 3] = 0
        return logits + 1.5 * actual - 0.7, actual
    actual = torch.randint(len(NAMES) - 1, (texts,), generator=chance)
    logits[torch.arange(texts), actual] += 1.5
    return logits, actual


def reported(logits: torch.Tensor, actual: torch.Tensor, batch: int) -> ClassificationReport:
    multi_label = actual.dim() == 2
    tally = PredictionCounter(NAMES, multi_label)
    for some, right in zip(logits.split(batch), actual.split(batch), strict=True):
        found = torch.nn.functional.logsigmoid(some) if multi_label else some.log_softmax(-1)
        tally.add(found, right)
    return tally.report()


@given(texts=st.integers(1, 60), seed=st.integers(0, 99), batch=st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_single_label_scores_equal_scikit_learn(texts: int, seed: int, batch: int) -> None:
    logits, actual = judged(texts, False, seed)
    found, given_labels = reported(logits, actual, batch), logits.argmax(-1)
    assert found.texts == texts
    assert found.accuracy == pytest.approx(accuracy_score(actual, given_labels))
    assert found.micro_f1 == pytest.approx(found.accuracy)
    assert found.low <= found.accuracy <= found.high
    options = {"zero_division": np.nan}
    macro = f1_score(actual, given_labels, average="macro", **options)
    assert found.macro_f1 == pytest.approx(macro)
    numbers = list(range(len(NAMES)))
    table = confusion_matrix(actual, given_labels, labels=numbers)
    ours = [[found.confusion.get((a, b), 0) for b in numbers] for a in numbers]
    assert ours == table.tolist()
    expected = by_label(actual, given_labels, labels=numbers, zero_division=0)
    for each, precision, recall, f1, had in zip(found.labels, *expected, strict=True):
        assert (each.precision, each.recall) == pytest.approx((precision, recall))
        assert (each.f1, each.texts) == (pytest.approx(f1), had)
    loss = log_loss(actual, logits.double().softmax(-1), labels=numbers)
    assert found.loss == pytest.approx(loss, rel=1e-5)


@given(texts=st.integers(1, 60), seed=st.integers(0, 99), batch=st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_multi_label_scores_equal_scikit_learn(texts: int, seed: int, batch: int) -> None:
    logits, actual = judged(texts, True, seed)
    found, said = reported(logits, actual, batch), (logits >= 0).long()
    assert found.accuracy == pytest.approx(accuracy_score(actual, said))
    macro = f1_score(actual, said, average="macro", zero_division=np.nan)
    assert found.macro_f1 == pytest.approx(0 if np.isnan(macro) else macro)
    micro = f1_score(actual, said, average="micro", zero_division=0)
    assert found.micro_f1 == pytest.approx(micro)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, actual.float())
    assert found.loss == pytest.approx(float(loss), rel=1e-5)
    for label, each in enumerate(found.labels):
        kept = found.confusion.get((label, label), 0)
        assert kept + found.confusion.get((label, MISSED), 0) == each.texts


def test_most_frequent_confusion_comes_first() -> None:
    logits = torch.eye(4)[torch.tensor([0, 1, 1, 1, 2])] * 9
    found = reported(logits, torch.tensor([0, 0, 0, 1, 1]), batch=2)
    assert found.most_confused() == [("a", "b", 2), ("b", "c", 1)]
    assert found.scores["labels"]["a"]["recall"] == pytest.approx(1 / 3)
    assert "confusion" not in found.scores


def test_calibration_error_equals_its_definition() -> None:
    """Nine of ten texts right, with a confidence of 70 % each."""
    sure = torch.tensor([0.7, 0.1, 0.1, 0.1]).log().expand(10, -1)
    tally = PredictionCounter(NAMES, multi_label=False)
    tally.add(sure, torch.tensor([0] * 9 + [1]))
    found = tally.report()
    assert found.calibration_error == pytest.approx(0.2, abs=1e-6)
    (only,) = found.bins
    assert (only.decisions, only.accuracy) == (10, 0.9)
    assert only.confidence == pytest.approx(0.7)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_fitted_temperature_recovers_the_true_one(multi_label: bool, temperature: float) -> None:
    """Labels are drawn from the logits, which are then multiplied by the true temperature."""
    chance = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(20_000, 3, generator=chance)
    if multi_label:
        actual = torch.bernoulli(logits.sigmoid(), generator=chance).long()
    else:
        actual = torch.multinomial(logits.softmax(-1), 1, generator=chance)[:, 0]
    assert fit_temperature(logits * temperature, actual) == pytest.approx(temperature, rel=0.05)


def test_few_texts_without_errors_do_not_give_certainty() -> None:
    logits = torch.eye(2).repeat(10, 1) * 4
    actual = torch.tensor([0, 1] * 10)
    tempered = logits / fit_temperature(logits, actual)
    assert float(tempered.softmax(-1).max()) == pytest.approx(21 / 22, abs=1e-3)
