"""Evidence for the label of a classifier, word by word.

    flow      g R, divided by its sum     g_j = (a_j ∂ log p / ∂a_j)⁺    a: pooling weights
              (Chefer et al. 2021)        R: the gradient-weighted rollout of the encoder
    pooling   a_j                         share of token j in the pooled state
    removal   log-odds of the label, less the log-odds without the tokens of the word

The flow and the pooling weights are those of one forward pass; the removal is an intervention that
shows what the label depends on. Weights of tokens are added up for each word.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.insight.forward_passes import ForwardPass, LabelOdds, Tokens
from regard.insight.packing import Floats
from regard.insight.seen import Seen, as_numpy
from regard.insight.views.base import View, ViewData
from regard.insight.views.rollout import gradient_rollouts
from regard.insight.watch import watch

BATCH = 64  # texts with a word removed


@dataclass(frozen=True)
class LabelEvidence(ViewData):
    """Evidence for the label, for each word."""

    label: str
    probability: float
    words: tuple[str, ...]
    flow: Floats | None  # (words,), sums to 1; None for an encoder without attention
    pooling: Floats  # (words,), sums to 1
    without: Floats  # (words,): probability of the label without the word; NaN for special tokens
    change: Floats  # (words,): fall of the log-odds without the word

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "probability": self.probability,
            "words": list(self.words),
            "flow": None if self.flow is None else _plain(self.flow),
            "pooling": _plain(self.pooling),
            "without": _plain(self.without),
            "change": _plain(self.change),
        }


class Spec(View):
    title: ClassVar[str] = "Label"
    question: ClassVar[str] = "Which words bear on the label, and what if one is removed?"
    order: ClassVar[int] = 25
    max_tokens: ClassVar[int | None] = 512
    needs_attention: ClassVar[bool] = False

    def compute(self, run: ForwardPass, seen: Seen) -> LabelEvidence | None:
        """Compute the three measures of a classifier; None for other models."""
        if run.label is None:
            return None
        [site] = run.sites
        pooling, relevance = _pooling(run)
        flow = None
        if seen.has(site.blocks, site.attention):
            flow = _normalized(relevance @ gradient_rollouts(run)[site.name][-1])
        odds, without = _removals(run.label, site.keys)
        texts = dict.fromkeys(site.keys.words, "")
        for token, word in zip(*site.keys, strict=True):
            texts[word] += token
        return LabelEvidence(
            run.label.name,
            _probability(odds),
            tuple(texts.values()),
            None if flow is None else _by_word(flow, site.keys),
            _by_word(pooling, site.keys),
            np.array([_probability(other) for other in without], np.float32),
            np.array([odds - other for other in without], np.float32),
        )


def _pooling(run: ForwardPass) -> tuple[Floats, Floats]:
    """Return the pooling weights a and (a ∂ log p / ∂a)⁺ of each token: (T,) each."""
    calls: list[tuple[Tensor, Tensor]] = []
    pool = run.model.get_submodule("pool")
    hook = pool.register_forward_hook(lambda _, inputs, pooled: calls.append((inputs[0], pooled)))
    try:
        with torch.enable_grad(), watch(run.model, {"weights"}) as seen:
            log_prob = run.run().sum()
    finally:
        hook.remove()
    if "pool" in seen.names():
        weights = seen.weights("pool")
        (gradient,) = torch.autograd.grad(log_prob, weights)
        return as_numpy(weights.flatten()), as_numpy((weights * gradient).clamp(min=0).flatten())
    # Other kinds have no parameters: the mean over components of ∂pooled/∂state is the weight.
    [(states, pooled)] = calls
    (shares,) = torch.autograd.grad(pooled.sum(), states, retain_graph=True)
    (gradient,) = torch.autograd.grad(log_prob, states)
    return as_numpy(shares[0].mean(-1)), as_numpy((states * gradient)[0].sum(-1).clamp(min=0))


@torch.inference_mode()
def _removals(label: LabelOdds, tokens: Tokens) -> tuple[float, list[float]]:
    """Return the log-odds of the label for the text, and without each word (NaN: not removed)."""
    positions = range(len(tokens.texts))
    words = list(dict.fromkeys(tokens.words))
    members = {word: {p for p in positions if tokens.words[p] == word} for word in words}
    removed = [word for word in words if label.can_remove and not members[word] & label.special]
    rows = [list(positions)] + [[p for p in positions if p not in members[w]] for w in removed]
    batches = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
    odds, *others = (value for batch in batches for value in label.log_odds(batch).tolist())
    by_word = dict(zip(removed, others, strict=True))
    return odds, [by_word.get(word, float("nan")) for word in words]


def _by_word(values: Floats, tokens: Tokens) -> Floats:
    words = list(dict.fromkeys(tokens.words))
    summed = np.zeros(len(words), np.float32)
    np.add.at(summed, [words.index(word) for word in tokens.words], values)
    return summed


def _normalized(values: Floats) -> Floats:
    total = values.sum()
    return values / total if total > 0 else values


def _probability(log_odds: float) -> float:
    return float(torch.tensor(log_odds, dtype=torch.float64).sigmoid())


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 6) for value in values]
