"""Beam search: the `width` likeliest beginnings go on at each step, not the likeliest alone.

    score(y) = log p(y) / |y|^α        |y| counts the end, α is the length penalty

Each word costs probability, so without the division short sentences would win (Wu et al. 2016,
section 7). What ends leaves the beam and joins the best sentences found so far. A row is done when
none of its beginnings could still join them (Huang et al. 2017): log p only falls, so the most a
beginning can come to is log p / longest^α. At its limit a row may only end, so that every score is
that of a whole sentence.
"""

import math
from bisect import insort
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.stepper import S, Stepper
from regard.errors import ConfigError


class Hypothesis(NamedTuple):
    """A sentence, its end left off, and its log-probability normalised by its length."""

    ids: list[int]
    score: float


@torch.inference_mode()
def beam(
    model: Stepper[S],
    state: S,
    first: Tensor,
    end: int,
    limits: list[int],
    width: int,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """What each row may say after its first id (B,), at most limits[row] ids: best first.

    There are one to `width` hypotheses a row. With a width of 1 it is what `greedy` says.
    """
    if width < 1 or length_penalty < 0:
        raise ConfigError(
            f"a beam {width} wide with a length penalty of {length_penalty} cannot search: "
            f"give a width of at least 1 and a penalty of at least 0."
        )
    found = [Best(width) for _ in limits]
    rows = list(range(len(limits)))
    longest = torch.tensor(limits, device=first.device) + 1  # the end included
    said = first[:, None, None]  # (R, W, length): R rows, W beginnings of each
    log_p = torch.zeros(len(rows), 1, device=first.device)  # (R, W), -∞ where there is none
    while rows:
        logits, state = model.step(said[:, :, -1].flatten(), state)
        length = said.size(2)  # of what ends now: its first id is not counted, its end is
        log_p, origin, word = _extend(log_p, logits, length >= longest, end, width)
        said = torch.cat([said.flatten(0, 1)[origin], word[:, :, None]], dim=2)
        ended = (word == end) & log_p.isfinite()
        places, sentences = ended.nonzero()[:, 0].tolist(), said[ended][:, 1:-1].tolist()
        scores = (log_p[ended] / length**length_penalty).tolist()
        for place, ids, score in zip(places, sentences, scores, strict=True):
            found[rows[place]].add(Hypothesis(ids, score))
        log_p = log_p.masked_fill(ended, -math.inf)
        attainable = (log_p.amax(1) / longest**length_penalty).tolist()
        going = [i for i, row in enumerate(rows) if attainable[i] > found[row].to_beat]
        rows = [rows[i] for i in going]
        kept = torch.tensor(going, device=first.device, dtype=torch.long)
        said, log_p, longest = said[kept], log_p[kept], longest[kept]
        state = state.reorder(origin[kept].flatten())
    return [best.hypotheses for best in found]


class Best:
    """The best hypotheses of a row found so far, `width` at most."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.hypotheses: list[Hypothesis] = []

    def add(self, new: Hypothesis) -> None:
        insort(self.hypotheses, new, key=lambda each: -each.score)
        del self.hypotheses[self.width :]

    @property
    def to_beat(self) -> float:
        """The score above which one more hypothesis would be among them."""
        full = len(self.hypotheses) == self.width
        return self.hypotheses[-1].score if full else -math.inf


def _extend(
    log_p: Tensor, logits: Tensor, closing: Tensor, end: int, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The likeliest continuations of each row's beginnings, log_p (R, W) and logits (R·W, V).

    For each its log p, its beginning as an index into R·W, and its word, (R, width) all three. Rows
    that are closing (R,) may only end.
    """
    rows, beginnings = log_p.shape
    vocabulary = logits.size(-1)
    after = log_p[:, :, None] + logits.log_softmax(-1).view(rows, beginnings, vocabulary)
    after[closing, :, :end] = after[closing, :, end + 1 :] = -math.inf
    best, chosen = after.flatten(1).topk(min(width, beginnings * vocabulary))
    before = torch.arange(rows, device=logits.device)[:, None] * beginnings
    return best, before + chosen // vocabulary, chosen % vocabulary
