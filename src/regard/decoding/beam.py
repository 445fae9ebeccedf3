"""Beam search: continue the `width` most likely hypotheses at each step.

    score(y) = log p(y) / |y|^α        |y| counts the end token, α is the length penalty

Each token lowers the probability, so without the division short outputs would win (Wu et al. 2016,
section 7). A hypothesis that ends leaves the beam and joins the finished ones. A live hypothesis
that can no longer beat them is pruned: log p only falls, so its score can reach at most
log p / longest^α. A row is done when it has no live hypothesis left (Huang et al. 2017); its result
is the same as without pruning, because a pruned hypothesis never ranks above one that can still
win. At its limit a row may only end, whatever logits processors say, so every score is that of a
complete output and every row has at least one. With `early_stopping`, as in most engines, a row is
done when `width` hypotheses are finished, although a better one may follow.
"""

import math
from bisect import insort
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.decoding.logits_processors import LogitsProcessor, process, require_finite
from regard.decoding.ranges import check_count, check_number
from regard.decoding.stepper import HasFusedBeam, S, Stepper
from regard.engine.numerics import Ids, Scores, highest, log_softmax
from regard.engine.ranking import rank
from regard.engine.search import BeamSettings


class Hypothesis(NamedTuple):
    """Generated ids without the end token, and their length-normalized log-probability."""

    ids: list[int]
    score: float
    finished: bool = True  # False if the length limit ended it and the model would continue


class BeamStep(NamedTuple):
    """Candidates at one step: R rows with W live hypotheses each, and V next tokens."""

    log_p: Scores  # (R, W, V) of each candidate, −∞ where there is none
    unprocessed: Scores  # (R, W, V), the same without the logits processors
    generated: Ids  # (R, W, length), the first id included
    rows: Sequence[int]  # row numbers
    remaining: Sequence[int]  # number of tokens that each row may generate after this one
    width: int


# Select at most `width` candidates in each row: their log p, and their indices in (W · V)
Select = Callable[[BeamStep], tuple[Scores, Ids]]


def top_candidates(step: BeamStep) -> tuple[Scores, Ids]:
    """Select the candidates with the highest log p."""
    flat = step.log_p.reshape(len(step.log_p), -1)
    return highest(flat, min(step.width, flat.shape[1]))


def beam_search(
    model: Stepper[S],
    state: S,
    first: Ids,
    end: int,
    limits: Sequence[int],
    width: int,
    length_penalty: float = 1.0,
    processors: Sequence[LogitsProcessor] = (),
    select: Select = top_candidates,
    prompts: Sequence[Sequence[int]] | None = None,
    n_best: int | None = None,
    early_stopping: bool = False,
    distinct: Callable[[list[int]], Hashable] = tuple,
) -> list[list[Hypothesis]]:
    """Return the best hypotheses of each row, best first: at least one.

    Args:
        model: The model to decode.
        state: Its state before `first`.
        first: The last id of each row's prompt, or the start token (B,).
        end: Id of the end token.
        limits: Maximum number of new ids in each row.
        width: Number of live hypotheses in each row; 1 gives the result of `greedy`.
        length_penalty: α of the score (default: 1.0).
        processors: Applied to the log-probabilities in order.
        select: Selects the candidates that are continued (default: the most likely).
        prompts: Ids of each row that processors see before the generated ones.
        n_best: Maximum number of hypotheses returned for each row (default: `width`); the fewer,
            the earlier the search ends.
        early_stopping: End a row after `width` finished hypotheses (default: False).
        distinct: Function of ids; of hypotheses with the same result only the best is returned
            (default: the ids themselves).

    Raises:
        ConfigError: The width, the length penalty or the number of hypotheses is out of range.
        RunError: The model computes logits that are not finite.
    """
    check_count("beam", width, 1)
    check_number("length_penalty", length_penalty, 0, 10)
    enough = width if early_stopping else None
    count = width if n_best is None else n_best
    check_count("n_best", count, 1)
    is_plain = select is top_candidates and not processors and (count == 1 or distinct is tuple)
    if is_plain and isinstance(model, HasFusedBeam) and limits:
        settings = BeamSettings(width, length_penalty, count, early_stopping)
        hypotheses = model.beam(first, state, end, limits, settings)
        return [[Hypothesis(*hypothesis) for hypothesis in of_row] for of_row in hypotheses]
    finished = [FinishedHypotheses(count, enough, distinct) for _ in limits]
    rows, longest = np.arange(len(limits)), np.array(limits)  # (R,)
    generated = first[:, None, None]  # (R, W, length)
    log_p = np.zeros((len(rows), 1), dtype=np.float32)  # (R, W), -∞ where there is none
    threshold = np.full(len(rows), -math.inf)  # log p at or below which a hypothesis is pruned
    while len(rows):
        is_live = log_p > -math.inf
        logits, state = model.step(generated[:, :, -1][is_live], state)
        length = generated.shape[2]  # of a hypothesis that ends now: without first, with the end
        must_end = np.flatnonzero(length > longest)  # rows at their limit
        ends_itself = np.ones(log_p.shape, dtype=bool)
        scores = logits
        if select is top_candidates and not processors:
            log_p, origin, token = _top(log_p, is_live, logits, must_end, end, width)
        else:
            live = LiveHypotheses(generated, is_live, rows.tolist(), (longest - length).tolist())
            require_finite(logits.max(-1))
            next_log_p = log_softmax(logits)
            scores = _processed(next_log_p, live, processors, prompts, end)
            log_p, origin, token = _selected(
                log_p, live, next_log_p, scores, must_end, end, width, select
            )
        if len(must_end):
            ends_itself[is_live] = scores.argmax(-1) == end
        origin += np.arange(len(rows))[:, None] * generated.shape[1]
        previous = generated.reshape(-1, length)[origin]
        generated = np.concatenate([previous, token[:, :, None]], axis=2)
        ended = (token == end) & (log_p > -math.inf)
        if ended.any():
            normalized = log_p / length**length_penalty
            for index, hypothesis in zip(*ended.nonzero(), strict=True):
                ended_ids = generated[index, hypothesis, 1:-1].tolist()
                best = finished[rows[index]]
                score = float(normalized[index, hypothesis])
                by_itself = ends_itself.flat[origin[index, hypothesis]]
                finished_itself = bool(length <= longest[index] or by_itself)
                best.add(Hypothesis(ended_ids, score, finished_itself))
                threshold[index] = best.threshold * (longest[index] + 1) ** length_penalty
            log_p[ended] = -math.inf
        pruned = log_p <= threshold[:, None]
        log_p[pruned] = -math.inf
        origin = (is_live.cumsum() - 1)[origin]  # index among the rows of the state
        if pruned.any():
            unfinished = ~pruned.all(1)
            rows, longest, threshold = rows[unfinished], longest[unfinished], threshold[unfinished]
            generated, log_p, origin = generated[unfinished], log_p[unfinished], origin[unfinished]
        state = state.reorder(origin[log_p > -math.inf])
    return [best.hypotheses for best in finished]


class LiveHypotheses(NamedTuple):
    """Hypotheses of R rows, W each, that are not finished."""

    generated: Ids  # (R, W, length), the first id included
    is_live: NDArray[np.bool_]  # (R, W)
    rows: list[int]  # row numbers
    remaining: list[int]  # number of tokens that each row may generate after this one


# log p of the continued hypotheses, the index of the one each continues, its new token: all (R, W)
Continued = tuple[Scores, Ids, Ids]


def _top(
    log_p: Scores,
    is_live: NDArray[np.bool_],
    logits: Scores,
    must_end: Ids,
    end: int,
    width: int,
) -> Continued:
    """Select what `top_candidates` would, from the best tokens of each hypothesis alone."""
    best, best_ids, log_sum = rank(logits, min(width, logits.shape[1]))
    require_finite(log_sum)
    candidates = np.full((*log_p.shape, best.shape[1]), -math.inf, dtype=np.float32)
    candidates[is_live] = log_p[is_live][:, None] + (best - log_sum[:, None])
    tokens = np.zeros(candidates.shape, dtype=np.int64)
    tokens[is_live] = best_ids
    if len(must_end):
        end_log_p = np.full_like(log_p, -math.inf)
        end_log_p[is_live] = log_p[is_live] + (logits[:, end] - log_sum)
        candidates[must_end] = -math.inf
        candidates[must_end, :, 0], tokens[must_end] = end_log_p[must_end], end
    row, size = np.arange(len(log_p))[:, None], best.shape[1]
    indices = np.argsort(-candidates.reshape(len(log_p), -1), axis=1, kind="stable")[:, :width]
    origin, nth = indices // size, indices % size
    return candidates[row, origin, nth], origin, tokens[row, origin, nth]


def _selected(
    log_p: Scores,
    live: LiveHypotheses,
    next_log_p: Scores,
    processed: Scores,
    must_end: Ids,
    end: int,
    width: int,
    select: Select,
) -> Continued:
    """Let `select` choose among all candidates; next_log_p is (number of live hypotheses, V)."""
    vocabulary, is_live = next_log_p.shape[1], live.is_live

    def extended(next_scores: Scores) -> Scores:
        scores = np.full((*log_p.shape, vocabulary), -math.inf, next_log_p.dtype)
        scores[is_live] = log_p[is_live][:, None] + next_scores
        if len(must_end):
            scores[must_end, :, :end] = scores[must_end, :, end + 1 :] = -math.inf
        return scores

    candidates = extended(processed)
    is_changed = processed is not next_log_p and select is not top_candidates
    unprocessed = extended(next_log_p) if is_changed else candidates
    step = BeamStep(candidates, unprocessed, live.generated, live.rows, live.remaining, width)
    values, indices = select(step)
    return values, indices // vocabulary, indices % vocabulary


def _processed(
    next_log_p: Scores,
    live: LiveHypotheses,
    processors: Sequence[LogitsProcessor],
    prompts: Sequence[Sequence[int]] | None,
    end: int,
) -> Scores:
    """Apply the processors to the log p of the next token of each live hypothesis."""
    if not processors:
        return next_log_p
    indices = live.is_live.nonzero()[0]
    rows = [live.rows[index] for index in indices]
    context = live.generated[live.is_live][:, 1:].tolist()
    if prompts is not None:
        context = [[*prompts[row], *ids] for row, ids in zip(rows, context, strict=True)]
    must_end = np.array([live.remaining[index] < 0 for index in indices])
    return process(processors, next_log_p.copy(), context, rows, end, must_end)


class FinishedHypotheses:
    """The best finished hypotheses of a row, at most `count`; `enough` of them end the search."""

    def __init__(
        self, count: int, enough: int | None, distinct: Callable[[list[int]], Hashable] = tuple
    ) -> None:
        self.count, self.enough, self.total = count, enough, 0
        self.hypotheses: list[Hypothesis] = []
        self._distinct = distinct
        self._by_key: dict[Hashable, Hypothesis] = {}

    def add(self, new: Hypothesis) -> None:
        """Add a hypothesis; of two that are not distinct, the better one stays."""
        self.total += 1
        if self.count > 1:
            key = self._distinct(new.ids)
            old = self._by_key.get(key)
            if old in self.hypotheses:
                if old.score >= new.score:
                    return
                self.hypotheses.remove(old)
            self._by_key[key] = new
        insort(self.hypotheses, new, key=lambda hypothesis: -hypothesis.score)
        del self.hypotheses[self.count :]

    @property
    def threshold(self) -> float:
        """Score above which one more hypothesis would be among the best."""
        if self.enough is not None and self.total >= self.enough:
            return math.inf
        is_full = len(self.hypotheses) == self.count
        return self.hypotheses[-1].score if is_full else -math.inf
