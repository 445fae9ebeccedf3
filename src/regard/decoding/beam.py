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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.decoding.logits_processors import LogitsProcessor
from regard.decoding.stepper import S, Stepper
from regard.engine.ranking import rank
from regard.errors import ConfigError

Ids = NDArray[np.int64]


class Hypothesis(NamedTuple):
    """A sentence, its end left off, and its log-probability normalised by its length."""

    ids: list[int]
    score: float


class BeamStep(NamedTuple):
    """A step of the search: R rows, W beginnings of each, V words that may come next."""

    after: Tensor  # (R, W, V), the log p of each continuation, −∞ where there is none
    said: Tensor  # (R, W, length)
    rows: Sequence[int]  # their numbers
    left: Sequence[int]  # how many words each may say after this one
    width: int


# Which continuations go on, at most `width` in each row: their log p, and where in (W · V) they are
Select = Callable[[BeamStep], tuple[Tensor, Tensor]]


def likeliest(at: BeamStep) -> tuple[Tensor, Tensor]:
    flat = at.after.flatten(1)
    best = flat.topk(min(at.width, flat.size(1)))
    return best.values, best.indices


@torch.inference_mode()
def beam(
    model: Stepper[S],
    state: S,
    first: Tensor,
    end: int,
    limits: Sequence[int],
    width: int,
    length_penalty: float = 1.0,
    rules: Sequence[LogitsProcessor] = (),
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
    # Small tables change at each step: numpy's, wherever the model is. R rows, W beginnings of each
    rows, longest = np.arange(len(limits)), np.array(limits)
    said = first.cpu().numpy()[:, None, None]  # (R, W, length)
    log_p = np.zeros((len(rows), 1), dtype=np.float32)  # (R, W), -∞ where there is none
    to_beat = np.full(len(rows), -math.inf)  # the log p below which a beginning is hopeless
    while len(rows):
        alive = log_p > -math.inf  # beginnings that can lead anywhere: only these are continued
        ids = torch.from_numpy(said[:, :, -1][alive]).to(first.device)
        logits, state = model.step(ids, state)
        length = said.shape[2]  # of what ends now: its first id is not counted, its end is
        closing = np.flatnonzero(length > longest)  # these may only end
        if select is likeliest and not rules:
            log_p, origin, word = _likeliest(log_p, alive, logits, closing, end, width)
        else:
            beginnings = LiveHypotheses(said, alive, rows.tolist(), (longest - length).tolist())
            words = _ruled(logits.log_softmax(-1), beginnings, rules, before)
            log_p, origin, word = _selected(log_p, beginnings, words, closing, end, width, select)
        origin += np.arange(len(rows))[:, None] * said.shape[1]
        said = np.concatenate([said.reshape(-1, length)[origin], word[:, :, None]], axis=2)
        ended = (word == end) & (log_p > -math.inf)
        if ended.any():
            scores = log_p / length**length_penalty
            for place, beginning in zip(*ended.nonzero(), strict=True):
                ids_said = said[place, beginning, 1:-1].tolist()
                best = found[rows[place]]
                best.add(Hypothesis(ids_said, float(scores[place, beginning])))
                to_beat[place] = best.to_beat * (longest[place] + 1) ** length_penalty
            log_p[ended] = -math.inf
        hopeless = log_p <= to_beat[:, None]
        log_p[hopeless] = -math.inf
        origin = (alive.cumsum() - 1)[origin]  # among those that were continued
        if hopeless.any():
            kept = ~hopeless.all(1)
            rows, longest, to_beat = rows[kept], longest[kept], to_beat[kept]
            said, log_p, origin = said[kept], log_p[kept], origin[kept]
        state = state.reorder(torch.from_numpy(origin[log_p > -math.inf]).to(first.device))
    return [best.hypotheses for best in found]


class LiveHypotheses(NamedTuple):
    """What has been said so far, which of it goes on, in which rows, and how much may follow."""

    said: Ids  # (R, W, length)
    alive: NDArray[np.bool_]  # (R, W)
    rows: list[int]
    left: list[int]


# The log p of what goes on, which of its row's beginnings it goes on from, and its word: all (R, W)
Continued = tuple[NDArray[np.float32], Ids, Ids]


def _likeliest(
    log_p: NDArray[np.float32],
    alive: NDArray[np.bool_],
    logits: Tensor,
    closing: Ids,
    end: int,
    width: int,
) -> Continued:
    """What `likeliest` chooses, from the best continuations of each beginning alone."""
    ranked = rank(logits, min(width, logits.size(1)))
    best, words, total = (each.cpu().numpy() for each in ranked)
    after = np.full((*log_p.shape, best.shape[1]), -math.inf, dtype=np.float32)
    after[alive] = log_p[alive][:, None] + (best - total[:, None])
    said = np.zeros(after.shape, dtype=np.int64)
    said[alive] = words
    if len(closing):
        last = np.full_like(log_p, -math.inf)
        last[alive] = log_p[alive] + (logits[:, end].cpu().numpy() - total)
        after[closing] = -math.inf
        after[closing, :, 0], said[closing] = last[closing], end
    row, size = np.arange(len(log_p))[:, None], best.shape[1]
    places = np.argsort(-after.reshape(len(log_p), -1), axis=1, kind="stable")[:, :width]
    origin, place = places // size, places % size
    return after[row, origin, place], origin, said[row, origin, place]


def _selected(
    log_p: NDArray[np.float32],
    beginnings: LiveHypotheses,
    words: Tensor,
    closing: Ids,
    end: int,
    width: int,
    select: Select,
) -> Continued:
    """What `select` chooses among all continuations, words (beginnings that go on, V)."""
    device, vocabulary = words.device, words.size(1)
    alive = torch.from_numpy(beginnings.alive).to(device)
    after = words.new_full((*log_p.shape, vocabulary), -math.inf)
    after[alive] = torch.from_numpy(log_p).to(device)[alive][:, None] + words
    if len(closing):
        after[closing, :, :end] = after[closing, :, end + 1 :] = -math.inf
    said = torch.from_numpy(beginnings.said)
    values, chosen = select(BeamStep(after, said, beginnings.rows, beginnings.left, width))
    places = chosen.cpu().numpy()
    return values.cpu().numpy(), places // vocabulary, places % vocabulary


def _ruled(
    words: Tensor,
    beginnings: LiveHypotheses,
    rules: Sequence[LogitsProcessor],
    before: Sequence[Sequence[int]] | None,
) -> Tensor:
    """The log p of the next words, of each beginning that there is, after the rules."""
    if rules:
        numbers = [beginnings.rows[place] for place in beginnings.alive.nonzero()[0]]
        said = beginnings.said[beginnings.alive][:, 1:].tolist()
        if before is not None:
            said = [[*before[row], *ids] for row, ids in zip(numbers, said, strict=True)]
        for rule in rules:
            words = rule(words, said, numbers)
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
