"""Greedy decoding, and the loop that it shares with sampling: one token in every row at each step.

Finished rows leave the batch, so a short output does not pay for a long one beside it.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from regard.decoding.logits_processors import LogitsProcessor, process, require_finite
from regard.decoding.stepper import S, Stepper, StreamsGreedy
from regard.engine.numerics import Ids, Scores

# (logits (R, V), row numbers, number of tokens generated so far) → token ids (R,)
ChooseToken = Callable[[Scores, Sequence[int], int], Ids]


def argmax(logits: Scores, _rows: Sequence[int], _step: int) -> Ids:
    """Choose the most likely token of each row: greedy decoding."""
    ids: Ids = logits.argmax(-1)
    return ids


def greedy(
    model: Stepper[S],
    state: S,
    first: Ids,
    end: int,
    limits: Sequence[int],
    processors: Sequence[LogitsProcessor] = (),
    prompts: Sequence[Sequence[int]] | None = None,
) -> list[list[int]]:
    """Return the ids generated after each row's first id (B,), without the end token.

    Args:
        model: The model to decode.
        state: Its state before `first`.
        first: The last id of each row's prompt, or the start token.
        end: Id of the end token.
        limits: Maximum number of new ids in each row; 0 gives none.
        processors: Applied to the logits in order.
        prompts: Ids of each row that processors see before the generated ones.
    """
    generated: list[list[int]] = [[] for _ in limits]
    steps = stream_tokens(model, state, first, end, limits, argmax, processors, prompts)
    for tokens in steps:
        for row, token in tokens:
            generated[row].append(token)
    return generated


def stream_tokens(
    model: Stepper[S],
    state: S,
    first: Ids,
    end: int,
    limits: Sequence[int],
    choose: ChooseToken = argmax,
    processors: Sequence[LogitsProcessor] = (),
    prompts: Sequence[Sequence[int]] | None = None,
) -> Iterator[list[tuple[int, int]]]:
    """Yield at each step (row, id) of every row that is not finished.

    Arguments are those of `greedy`; `choose` picks the ids from the logits. The end token is not
    yielded.
    """
    is_greedy = choose is argmax and not processors
    if isinstance(model, StreamsGreedy) and is_greedy and len(limits) == 1:
        yield from ([(0, token)] for token in model.greedy_stream(first, state, end, limits[0]))
        return
    context = [list(ids) for ids in prompts] if prompts is not None else [[] for _ in limits]
    rows, ids, step = list(range(len(limits))), first, 0
    unfinished = set(rows)
    while unfinished := {row for row in unfinished if step < limits[row]}:
        if len(unfinished) < len(rows):
            indices = [index for index, row in enumerate(rows) if row in unfinished]
            ids, state = ids[indices], state.reorder(np.array(indices))
            rows = [rows[index] for index in indices]
        logits, state = model.step(ids, state)
        if processors:
            own_context = [context[row] for row in rows]
            logits = process(processors, logits, own_context, rows, end)
        ids = choose(logits, rows, step)
        require_finite(logits[np.arange(len(ids)), ids])
        step += 1
        tokens = [
            (row, token) for row, token in zip(rows, ids.tolist(), strict=True) if token != end
        ]
        for row, token in tokens:
            context[row].append(token)
        if tokens:
            yield tokens
        unfinished = {row for row, _ in tokens}
