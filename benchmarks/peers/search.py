"""Greedy and beam search for a model that answers for whole prefixes: no cache, nothing hidden."""

from collections.abc import Callable

import torch
from torch import Tensor

# (prefixes (N, t), rows of the source batch (N,)) → logits of the next token (N, V)
Next = Callable[[Tensor, Tensor], Tensor]


def greedy(following: Next, rows: int, start: int, end: int, limit: int) -> list[list[int]]:
    """The likeliest token each time, until the end; rows that have ended are left out."""
    found: list[list[int]] = [[] for _ in range(rows)]
    alive = torch.arange(rows)
    prefix = torch.full((rows, 1), start)
    for _ in range(limit):
        token = following(prefix, alive).argmax(-1)
        for row, choice in zip(alive.tolist(), token.tolist(), strict=True):
            found[row].append(choice)
        going = token != end
        prefix, alive = torch.cat([prefix, token[:, None]], 1)[going], alive[going]
        if not len(alive):
            break
    return found


def beam(
    following: Next, rows: int, start: int, end: int, limit: int, width: int
) -> list[list[int]]:
    """The best of `width` ended hypotheses, by log-probability per token, the end included.

    Of the 2·width best continuations at most `width` end, since each prefix ends in one way; so
    `width` are left to go on. A hypothesis ends only from among the `width` best. A row is done
    when `width` have ended; those still open at the limit compete as they are.
    """
    ended: list[list[tuple[float, list[int]]]] = [[] for _ in range(rows)]
    alive = torch.arange(rows)
    prefix = torch.full((rows, width, 1), start)
    score = torch.full((rows, width), -torch.inf)
    score[:, 0] = 0.0  # the prefixes are one and the same at first
    for length in range(1, limit + 1):
        logits = following(prefix.flatten(0, 1), alive.repeat_interleave(width))
        likely = logits.log_softmax(-1).view(len(alive), width, -1)
        vocabulary = likely.size(-1)
        best, flat = (score[:, :, None] + likely).flatten(1).topk(2 * width)
        token = flat % vocabulary
        parents = prefix.gather(1, (flat // vocabulary)[:, :, None].expand(-1, -1, length))
        grown = torch.cat([parents, token[:, :, None]], 2)
        ends = token == end
        for row, rank in ends[:, :width].nonzero().tolist():
            hypotheses = ended[alive[row]]
            if len(hypotheses) < width:
                hypotheses.append((best[row, rank].item() / length, grown[row, rank, 1:].tolist()))
        going = ends.int().argsort(dim=1, stable=True)[:, :width]  # the best that do not end
        prefix = grown.gather(1, going[:, :, None].expand(-1, -1, length + 1))
        score = best.gather(1, going)
        open_rows = torch.tensor([len(ended[row]) < width for row in alive.tolist()])
        prefix, score, alive = prefix[open_rows], score[open_rows], alive[open_rows]
        if not len(alive):
            break
    for row, row_score, row_prefix in zip(alive.tolist(), score, prefix, strict=True):
        for value, ids in zip(row_score.tolist(), row_prefix.tolist(), strict=True):
            ended[row].append((value / limit, ids[1:]))
    return [max(hypotheses)[1] for hypotheses in ended]
