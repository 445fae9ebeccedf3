"""Calibration by temperature scaling (Guo et al. 2017).

p = softmax(logits / temperature), or sigmoid(logits / temperature) of each label of several

The temperature is fitted on texts that were not trained on. It changes probabilities, no decision.
"""

import math

import torch
from torch import Tensor

from regard.evaluation.classification import one_hot

MAX_TEMPERATURE = 20.0  # the smallest is its inverse
BISECTIONS = 40


def fit_temperature(logits: Tensor, actual: Tensor) -> float:
    """Fit the temperature that maximizes the likelihood of the actual labels.

    The log-likelihood is concave in 1 / temperature, so the root of its derivative is found by
    bisection. As in Platt (1999), the target probability of the actual label is (N + 1) / (N + 2):
    a model without errors on few texts does not become certain of all others.

    Args:
        logits: (N, labels).
        actual: label numbers (N,), or 0 and 1 of each label (N, labels).
    """
    logits = logits.double()
    several = actual.dim() == 2
    is_actual = actual.bool() if several else one_hot(actual, logits)
    alternatives = 1 if several else logits.size(1) - 1  # each label of several is yes or no
    smoothing = 1 / (len(logits) + 2)
    targets = torch.where(is_actual, 1 - smoothing, smoothing / alternatives).double()
    observed = (targets * logits).sum()
    low, high = -math.log(MAX_TEMPERATURE), math.log(MAX_TEMPERATURE)  # log(1 / temperature)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        tempered = logits * math.exp(middle)
        expected = tempered.sigmoid() if several else tempered.softmax(-1)
        if (expected * logits).sum() < observed:
            low = middle
        else:
            high = middle
    return math.exp(-middle)
