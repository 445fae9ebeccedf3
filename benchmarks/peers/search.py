"""Greedy and beam search without a KV cache, for a model that takes complete prefixes."""

from collections.abc import Callable

import torch
from torch import Tensor

# (prefixes (N, t), rows of the source batch (N,)) → logits of the next token (N, V)
NextLogits = Callable[[Tensor, Tensor], Tensor]


def greedy(next_logits: NextLogits, rows: int, start: int, end: int, limit: int) -> list[list[int]]:
    """Return the most likely tokens up to the end token; finished rows are not computed."""
    outputs: list[list[int]] = [[] for _ in range(rows)]
    alive = torch.arange(rows)
    prefix = torch.full((rows, 1), start)
    for _ in range(limit):
        token = next_logits(prefix, alive).argmax(-1)
        for row, choice in zip(alive.tolist(), token.tolist(), strict=True):
            outputs[row].append(choice)
        live = token != end
        prefix, alive = torch.cat([prefix, token[:, None]], 1)[live], alive[live]
        if not len(alive):
            break
    return outputs


def beam(
    next_logits: NextLogits, rows: int, start: int, end: int, limit: int, width: int
) -> list[list[int]]:
    """Return the best of `width` finished hypotheses, by log-probability per token with the end.

    Of the 2·width best continuations at most `width` end, because each prefix has one end token; so
    `width` remain live. Only the `width` best can finish. A row is done when `width` hypotheses
    have finished; at the limit, live hypotheses compete as they are.
    """
    finished: list[list[tuple[float, list[int]]]] = [[] for _ in range(rows)]
    alive = torch.arange(rows)
    prefix = torch.full((rows, width, 1), start)
    score = torch.full((rows, width), -torch.inf)
    score[:, 0] = 0.0  # all prefixes are the same at first
    for length in range(1, limit + 1):
        logits = next_logits(prefix.flatten(0, 1), alive.repeat_interleave(width))
        log_probs = logits.log_softmax(-1).view(len(alive), width, -1)
        vocabulary = log_probs.size(-1)
        best, flat = (score[:, :, None] + log_probs).flatten(1).topk(2 * width)
        token = flat % vocabulary
        parents = prefix.gather(1, (flat // vocabulary)[:, :, None].expand(-1, -1, length))
        grown = torch.cat([parents, token[:, :, None]], 2)
        ends = token == end
        for row, rank in ends[:, :width].nonzero().tolist():
            hypotheses = finished[alive[row]]
            if len(hypotheses) < width:
                hypotheses.append((best[row, rank].item() / length, grown[row, rank, 1:].tolist()))
        live = ends.int().argsort(dim=1, stable=True)[:, :width]  # the best live ones
        prefix = grown.gather(1, live[:, :, None].expand(-1, -1, length + 1))
        score = best.gather(1, live)
        open_rows = torch.tensor([len(finished[row]) < width for row in alive.tolist()])
        prefix, score, alive = prefix[open_rows], score[open_rows], alive[open_rows]
        if not len(alive):
            break
    for row, row_score, row_prefix in zip(alive.tolist(), score, prefix, strict=True):
        for value, ids in zip(row_score.tolist(), row_prefix.tolist(), strict=True):
            finished[row].append((value / limit, ids[1:]))
    return [max(hypotheses)[1] for hypotheses in finished]
