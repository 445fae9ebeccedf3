"""Greedy decoding: at each step the likeliest word, until the end or a limit.

Rows that have ended leave the batch, so a short sentence does not pay for a long neighbour.
"""

import torch

from regard.decoding.stepper import S, Stepper


@torch.inference_mode()
def greedy(
    model: Stepper[S], state: S, first: torch.Tensor, end: int, limits: list[int]
) -> list[list[int]]:
    """What each row says after its first id (B,), the end left off, at most limits[row] ids."""
    said: list[list[int]] = [[] for _ in limits]
    rows = list(range(len(limits)))
    ids = first
    while rows:
        logits, state = model.step(ids, state)
        ids = logits.argmax(-1)
        going = []
        for place, (row, chosen) in enumerate(zip(rows, ids.tolist(), strict=True)):
            if chosen != end:
                said[row].append(chosen)
                if len(said[row]) < limits[row]:
                    going.append(place)
        if len(going) < len(rows):
            kept = torch.tensor(going, device=ids.device, dtype=torch.long)
            ids, state = ids.index_select(0, kept), state.reorder(kept)
            rows = [rows[place] for place in going]
    return said
