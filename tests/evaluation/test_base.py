"""Every metric kind: the metric alone decides which value is better; unknown names are refused."""

import math
from collections.abc import Callable

import pytest
import torch

from regard.config import kinds
from regard.errors import ConfigError
from regard.evaluation.base import Metric, evaluation_metrics, metric_named, metrics_of
from regard.evaluation.classification import (
    ClassificationReport,
    LabelMetric,
    PredictionCounter,
    one_hot,
)
from regard.evaluation.texts import SummaryMetric, TranslationMetric, score_texts
from regard.evaluation.tokens import TokenCounts, TokenMetric

METRICS = [metric.name for metric in metrics_of(Metric)]
TEXTS = ["the cat sleeps on the mat near the house", "two dogs run on the long beach today"]


def test_every_metric_file_is_a_metric() -> None:
    assert [name.replace("-", "_") for name in kinds("regard.evaluation")] == METRICS
    assert {"bleu", "chrf", "loss", "accuracy", "macro_f1", "rouge_l"} <= set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_is_better_follows_the_direction_of_the_metric(name: str) -> None:
    metric = metric_named(name)
    low, high = (0.25, 0.5)
    assert metric.is_better(high, low) is metric.higher_is_better
    assert metric.is_better(low, high) is not metric.higher_is_better
    assert not metric.is_better(high, high)
    assert metric.is_better(high, None)
    for value in (math.nan, math.inf, -math.inf):
        assert not metric.is_better(value, None)
        assert not metric.is_better(value, high)


def quality(metric: Metric) -> list[Callable[[bool], float]]:
    """Value of a metric on right and on wrong predictions, for each kind of its inputs."""
    computed: list[Callable[[bool], float]] = []
    if isinstance(metric, TranslationMetric | SummaryMetric):
        outputs = {True: TEXTS, False: ["no word in common", "nothing"]}
        references = [[text] for text in TEXTS]
        computed.append(
            lambda right: score_texts([metric], outputs[right], references).values[metric.name]
        )
    if isinstance(metric, TokenMetric):
        counts = {True: TokenCounts(1.0, 9, 10), False: TokenCounts(20.0, 1, 10)}
        computed.append(lambda right: metric.of_tokens(counts[right]))
    if isinstance(metric, LabelMetric):
        computed.append(lambda right: metric.of_report(report(right)))
    return computed


def report(right: bool) -> ClassificationReport:
    """Report of a confident classifier on four texts."""
    tally = PredictionCounter(["a", "b"], multi_label=False)
    actual = torch.tensor([0, 1, 0, 1])
    predicted = actual if right else 1 - actual
    tally.add(torch.where(one_hot(predicted, torch.zeros(4, 2)), 0.99, 0.01).log(), actual)
    return tally.report()


@pytest.mark.parametrize("name", METRICS)
def test_right_predictions_are_better_than_wrong_ones(name: str) -> None:
    """The declared direction is that of the values computed: a sign error cannot pass."""
    metric = metric_named(name)
    computations = quality(metric)
    assert computations
    for compute in computations:
        assert metric.is_better(compute(True), compute(False))
        assert not metric.is_better(compute(False), compute(True))


def test_an_unknown_metric_is_refused_with_the_names_of_those_that_exist() -> None:
    with pytest.raises(
        ConfigError, match=r"metric: there is no kind 'bleurt', did you mean 'bleu'"
    ):
        metric_named("bleurt")


@pytest.mark.parametrize("missing", ["label", "higher_is_better"])
def test_a_metric_must_declare_its_label_and_direction(missing: str) -> None:
    declared = {"label": "x", "higher_is_better": True}
    del declared[missing]
    with pytest.raises(TypeError, match=f"a metric must define {missing}"):
        type("Spec", (Metric,), {"__module__": "regard.evaluation.x", **declared})


def test_values_are_shown_as_the_metric_declares() -> None:
    assert metric_named("bleu").show(34.5678) == "34.6"
    assert metric_named("bleu").show(34.5678, digits=2) == "34.57"
    assert metric_named("accuracy").show(0.9731) == "97.3%"
    assert metric_named("perplexity").show(12345.678) == "12,345.68"


def test_evaluations_compute_text_metrics_only_if_one_selects_the_checkpoint() -> None:
    names = [metric.name for metric in evaluation_metrics(TranslationMetric, "chrf")]
    assert names == ["bleu", "chrf"]
    assert "exact_match" in [
        metric.name for metric in evaluation_metrics(TranslationMetric, "exact_match")
    ]
    assert evaluation_metrics(TranslationMetric, "loss") == []
