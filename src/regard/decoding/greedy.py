"""Greedy decoding: at each step the likeliest word, until the end or a limit."""

from collections.abc import Sequence

from torch import Tensor

from regard.decoding.logits_processors import LogitsProcessor
from regard.decoding.stepper import S, Stepper
from regard.decoding.stream import stream


def greedy(
    model: Stepper[S],
    state: S,
    first: Tensor,
    end: int,
    limits: Sequence[int],
    rules: Sequence[LogitsProcessor] = (),
    said: Sequence[Sequence[int]] | None = None,
) -> list[list[int]]:
    """What each row says after its first id (B,), the end left off, at most limits[row] ids."""
    spoken: list[list[int]] = [[] for _ in limits]
    for words in stream(model, state, first, end, limits, rules=rules, said=said):
        for row, word in words:
            spoken[row].append(word)
    return spoken
