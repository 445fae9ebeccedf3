"""Probabilities as sure as they are right: temperature scaling (Guo et al. 2017).

p = softmax(logits / temperature), or of each label by itself the sigmoid of that

One number is fitted on texts that were not trained on. It changes no decision, only how sure it is.
"""

import math

import torch
from torch import Tensor

from regard.evaluation.classification import one_hot

WARMEST = 20.0  # the largest temperature looked for; the smallest is its inverse
HALVINGS = 40


def fit_temperature(logits: Tensor, actual: Tensor) -> float:
    """What to divide logits (N, labels) by, so that they are as sure as they are right.

    The likelihood of what was right is concave in 1 / temperature, so its slope is followed to
    zero. As in Platt (1999), what was right counts for N + 1 of N + 2: a model that made no
    mistake on few texts is not to be certain of all others.
    """
    logits = logits.double()
    several = actual.dim() == 2
    wanted = actual.bool() if several else one_hot(actual, logits)
    others = 1 if several else logits.size(1) - 1  # a decision by itself is yes or no
    doubt = 1 / (len(logits) + 2)
    wanted = torch.where(wanted, 1 - doubt, doubt / others).double()
    said = (wanted * logits).sum()
    low, high = -math.log(WARMEST), math.log(WARMEST)  # of 1 / temperature
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tempered = logits * math.exp(middle)
        expected = tempered.sigmoid() if several else tempered.softmax(-1)
        if (expected * logits).sum() < said:
            low = middle
        else:
            high = middle
    return math.exp(-middle)
