"""Beam search: the `width` likeliest beginnings go on at each step, not the likeliest alone.

    score(y) = log p(y) / |y|^α        |y| counts the end, α is the length penalty

Each word costs probability, so without the division short sentences would win (Wu et al. 2016,
section 7). What ends leaves the beam and joins the best sentences found so far. A beginning that
could not join them any more is given up: log p only falls, so the most it can come to is
log p / longest^α. A row is done when it has no beginning left (Huang et al. 2017), and has found
what it would have found by going on: the hopeless never stand before those with hope. At its limit
a row may only end, so that every score is that of a whole sentence. `quick` is what most engines
do: a row is done when `width` sentences have ended, though a better one may be on its way.
"""

import math
from bisect import insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.rules import Rule
from regard.decoding.stepper import S, Stepper
from regard.engine.ranking import rank
from regard.errors import ConfigError


class Hypothesis(NamedTuple):
    """A sentence, its end left off, and its log-probability normalised by its length."""

    ids: list[int]
    score: float


class Crossroads(NamedTuple):
    """A step of the search: R rows, W beginnings of each, V words that may come next."""

    after: Tensor  # (R, W, V), the log p of each continuation, −∞ where there is none
    said: Tensor  # (R, W, length)
    rows: Sequence[int]  # their numbers
    left: Sequence[int]  # how many words each may say after this one
    width: int


# Which continuations go on, at most `width` in each row: their log p, and where in (W · V) they are
Select = Callable[[Crossroads], tuple[Tensor, Tensor]]


def likeliest(at: Crossroads) -> tuple[Tensor, Tensor]:
    flat = at.after.flatten(1)
    best = flat.topk(min(at.width, flat.size(1)))
    return best.values, best.indices


def _likeliest(
    log_p: Tensor, alive: Tensor, logits: Tensor, closing: Sequence[int], end: int, width: int
) -> tuple[Tensor, Tensor]:
    """What `likeliest` chooses, from the best continuations of each beginning alone."""
    best, words, total = rank(logits, min(width, logits.size(1)))
    after = _spread(log_p, alive, best - total[:, None])
    said = alive.new_zeros(after.shape, dtype=torch.long)
    said[alive] = words
    if closing:
        last = _spread(log_p, alive, (logits[:, end] - total)[:, None])
        after[closing] = -math.inf
        after[closing, :, :1] = last[closing]
        said[closing] = end
    values, places = after.flatten(1).topk(min(width, after[0].numel()))
    origin = places.div(after.size(2), rounding_mode="floor")
    return values, said.flatten(1).gather(1, places) + origin * logits.size(1)


def _spread(log_p: Tensor, alive: Tensor, words: Tensor) -> Tensor:
    """log p of words (beginnings that there are, K) after those (R, W): (R, W, K), −∞ elsewhere."""
    after = words.new_full((*log_p.shape, words.size(1)), -math.inf)
    after[alive] = log_p[alive][:, None] + words
    return after


@torch.inference_mode()
def beam(
    model: Stepper[S],
    state: S,
    first: Tensor,
    end: int,
    limits: Sequence[int],
    width: int,
    length_penalty: float = 1.0,
    rules: Sequence[Rule] = (),
    select: Select = likeliest,
    before: Sequence[Sequence[int]] | None = None,
    wanted: int | None = None,
    quick: bool = False,
) -> list[list[Hypothesis]]:
    """What each row may say after its first id (B,), at most limits[row] ids: best first.

    There are one to `wanted` hypotheses a row, `width` unless given: the fewer, the sooner it is
    sure of them. With a width of 1 it is what `greedy` says. Rules see what each row has said,
    after what it is given in `before`: a prompt.
    """
    if width < 1 or length_penalty < 0:
        raise ConfigError(
            f"a beam {width} wide with a length penalty of {length_penalty} cannot search: "
            f"give a width of at least 1 and a penalty of at least 0."
        )
    found = [Best(wanted or width, width if quick else None) for _ in limits]
    rows = list(range(len(limits)))
    said = first[:, None, None]  # (R, W, length): R rows, W beginnings of each
    log_p = torch.zeros(len(rows), 1, device=first.device)  # (R, W), -∞ where there is none
    while rows:
        alive = log_p > -math.inf  # beginnings that can lead anywhere: only these are continued
        logits, state = model.step(said[:, :, -1][alive], state)
        length = said.size(2)  # of what ends now: its first id is not counted, its end is
        closing = [i for i, row in enumerate(rows) if length > limits[row]]  # these may only end
        vocabulary = logits.size(1)
        if select is likeliest and not rules:
            log_p, chosen = _likeliest(log_p, alive, logits, closing, end, width)
        else:
            words = _ruled(logits.log_softmax(-1), said, alive, rows, rules, before)
            after = _spread(log_p, alive, words)
            if closing:
                after[closing, :, :end] = after[closing, :, end + 1 :] = -math.inf
            left = [limits[row] - length for row in rows]
            log_p, chosen = select(Crossroads(after, said, rows, left, width))
        first_of = torch.arange(len(rows), device=first.device)[:, None] * said.size(1)
        origin, word = first_of + chosen // vocabulary, chosen % vocabulary
        said = torch.cat([said.flatten(0, 1)[origin], word[:, :, None]], dim=2)
        ended = (word == end) & (log_p > -math.inf)
        if ended.any():
            places, sentences = ended.nonzero()[:, 0].tolist(), said[ended][:, 1:-1].tolist()
            scores = (log_p[ended] / length**length_penalty).tolist()
            for place, ids, score in zip(places, sentences, scores, strict=True):
                found[rows[place]].add(Hypothesis(ids, score))
            log_p = log_p.masked_fill(ended, -math.inf)
        to_beat = [found[row].to_beat * (limits[row] + 1) ** length_penalty for row in rows]
        hopeless = log_p <= log_p.new_tensor(to_beat)[:, None]
        log_p = log_p.masked_fill(hopeless, -math.inf)
        origin = (alive.flatten().cumsum(0) - 1)[origin]  # among those that were continued
        if hopeless.any():
            kept = (~hopeless).any(1)
            rows = [row for row, keep in zip(rows, kept.tolist(), strict=True) if keep]
            said, log_p, origin = said[kept], log_p[kept], origin[kept]
        state = state.reorder(origin[log_p > -math.inf])
    return [best.hypotheses for best in found]


def _ruled(
    words: Tensor,
    said: Tensor,
    alive: Tensor,
    rows: Sequence[int],
    rules: Sequence[Rule],
    before: Sequence[Sequence[int]] | None,
) -> Tensor:
    """The log p of the next words, of each beginning that there is, after the rules."""
    if rules:
        numbers = [rows[place] for place in alive.nonzero()[:, 0].tolist()]
        beginnings = said[alive][:, 1:].tolist()
        if before is not None:
            pairs = zip(numbers, beginnings, strict=True)
            beginnings = [[*before[row], *ids] for row, ids in pairs]
        for rule in rules:
            words = rule(words, beginnings, numbers)
    return words


class Best:
    """The best hypotheses of a row found so far, `count` at most; `enough` end the search."""

    def __init__(self, count: int, enough: int | None) -> None:
        self.count, self.enough, self.seen = count, enough, 0
        self.hypotheses: list[Hypothesis] = []

    def add(self, new: Hypothesis) -> None:
        self.seen += 1
        insort(self.hypotheses, new, key=lambda each: -each.score)
        del self.hypotheses[self.count :]

    @property
    def to_beat(self) -> float:
        """The score above which one more hypothesis would be among them."""
        if self.enough is not None and self.seen >= self.enough:
            return math.inf
        full = len(self.hypotheses) == self.count
        return self.hypotheses[-1].score if full else -math.inf
