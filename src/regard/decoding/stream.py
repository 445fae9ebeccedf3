"""One word at a time in every row: what greedy decoding and sampling share.

Rows that have ended leave the batch, so a short sentence does not pay for a long neighbour.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from regard.decoding.logits_processors import LogitsProcessor
from regard.decoding.stepper import S, Stepper

# (logits (R, V), the rows they belong to, how many words those have said) → ids (R,)
Choose = Callable[[Tensor, Sequence[int], int], Tensor]


def likeliest(logits: Tensor, _rows: Sequence[int], _step: int) -> Tensor:
    if logits.device.type == "cpu" and logits.dtype == torch.float32:
        return torch.from_numpy(logits.numpy().argmax(-1))
    return logits.argmax(-1)


def stream(
    model: Stepper[S],
    state: S,
    first: Tensor,
    end: int,
    limits: Sequence[int],
    choose: Choose = likeliest,
    rules: Sequence[LogitsProcessor] = (),
    said: Sequence[Sequence[int]] | None = None,
) -> Iterator[list[tuple[int, int]]]:
    """Step by step, (row, id) of all rows that say something after their first id (B,).

    The end is not told; a row says at most limits[row] ids. Rules see what each row has said, after
    what it is given in `said`: a prompt.
    """
    spoken = [list(before) for before in said] if said is not None else [[] for _ in limits]
    rows, ids, step = list(range(len(limits))), first, 0
    while rows:
        with torch.inference_mode():
            logits, state = model.step(ids, state)
            for rule in rules:
                logits = rule(logits, [spoken[row] for row in rows], rows)
            ids = choose(logits, rows, step)
        step += 1
        words = [(row, word) for row, word in zip(rows, ids.tolist(), strict=True) if word != end]
        for row, word in words:
            spoken[row].append(word)
        if words:
            yield words
        speaking = {row for row, _ in words if step < limits[row]}
        if len(speaking) < len(rows):
            going = [place for place, row in enumerate(rows) if row in speaking]
            kept = torch.tensor(going, device=ids.device, dtype=torch.long)
            with torch.inference_mode():
                ids, state = ids.index_select(0, kept), state.reorder(kept)
            rows = [rows[place] for place in going]
