"""Truncation of texts that are too long for a model: keep the head, the tail, or both ends."""

from collections.abc import Sequence
from typing import Literal, TypeVar

T = TypeVar("T")

Keep = Literal["head", "tail", "both"]


def truncate(tokens: Sequence[T], room: int, keep: Keep) -> list[T]:
    """Return at most `room` tokens; of both ends, the head has one more if `room` is odd."""
    if len(tokens) <= room:
        return list(tokens)
    tail = {"head": 0, "tail": room, "both": room // 2}[keep]
    return [*tokens[: room - tail], *tokens[len(tokens) - tail :]]


def truncate_texts(texts: Sequence[Sequence[T]], room: int, keep: Keep) -> list[list[T]]:
    """Return one or two texts with at most `room` tokens together.

    Of two texts, one that takes less than half of the room is whole, and the other has the rest.
    """
    shares = [room] * len(texts)
    if len(texts) == 2 and sum(map(len, texts)) > room:
        first = min(len(texts[0]), max(room - room // 2, room - len(texts[1])))
        shares = [first, room - first]
    return [truncate(text, share, keep) for text, share in zip(texts, shares, strict=True)]
