"""The panel: shares from queries to keys by layer and head, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.insight.packing import (
    Floats,
    Mask,
    pack_floats,
    pack_mask,
    pack_weights,
    unpack_mask,
    unpack_weights,
)

EXPERTS = "experts"  # prefix of the names of panels whose keys are experts


@dataclass(frozen=True)
class Panel:
    """Attention weights of one stack of layers, with the tokens of its rows and columns."""

    name: str
    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Floats
    """(layers, heads, queries, keys); a row sums to 1, or to 0 where every key is masked."""
    predicts: tuple[str, ...] = ()
    """The token predicted after each query; empty where the model predicts none."""
    causal: bool = False
    scores: Floats | None = None
    """Like weights, before the softmax: q·k / √K plus position bias; −∞ where masked."""
    query_words: tuple[int, ...] = ()
    """Index of the word that each query token is part of; empty where words are unknown."""
    key_words: tuple[int, ...] = ()
    may_attend: Mask | None = None
    """(layers, queries, keys): True where a query may attend to a key; None where unknown."""

    def __post_init__(self) -> None:
        # A wrong shape would otherwise show up much later, as a blank page.
        tokens = (len(self.queries), len(self.keys))
        if self.weights.ndim != 4 or self.weights.shape[2:] != tokens:
            raise ValueError(
                f"panel {self.name!r}: weights of shape {self.weights.shape} do not fit "
                f"(layers, heads, {tokens[0]} queries, {tokens[1]} keys)"
            )
        if 0 in self.weights.shape[:2]:
            raise ValueError(f"panel {self.name!r}: there must be at least one layer and one head")
        if not np.isfinite(self.weights).all():
            raise ValueError(f"panel {self.name!r}: weights must be finite numbers")
        if self.scores is not None and self.scores.shape != self.weights.shape:
            raise ValueError(f"panel {self.name!r}: scores must have the shape of the weights")
        self._check_mask(tokens)
        for values, size in (
            (self.predicts, tokens[0]),
            (self.query_words, tokens[0]),
            (self.key_words, tokens[1]),
        ):
            if values and len(values) != size:
                raise ValueError(f"panel {self.name!r}: {len(values)} entries for {size} tokens")

    def _check_mask(self, tokens: tuple[int, int]) -> None:
        if self.may_attend is None:
            return
        if self.may_attend.shape != (self.layers, *tokens):
            raise ValueError(f"panel {self.name!r}: may_attend must be (layers, queries, keys)")
        if (self.weights.any(axis=1) & ~self.may_attend).any():
            raise ValueError(f"panel {self.name!r}: there are weights at masked positions")

    @property
    def layers(self) -> int:
        return int(self.weights.shape[0])

    @property
    def heads(self) -> int:
        return int(self.weights.shape[1])

    def to_json(self) -> dict[str, Any]:
        """Return the panel as dicts, lists, strings and numbers."""
        return {
            "name": self.name,
            "title": self.title,
            "queries": list(self.queries),
            "keys": list(self.keys),
            "weights": pack_weights(self.weights, self.may_attend),
            "may_attend": None if self.may_attend is None else pack_mask(self.may_attend),
            "scores": None if self.scores is None else pack_floats(self.scores),
            "predicts": list(self.predicts),
            "causal": self.causal,
            "query_words": list(self.query_words),
            "key_words": list(self.key_words),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Panel:
        """Return the panel that `to_json` wrote, without its scores."""
        # Histories recorded by earlier versions have the mask as "visible", or none.
        mask = content.get("may_attend", content.get("visible"))
        may_attend = None if mask is None else unpack_mask(mask)
        return cls(
            content["name"],
            content["title"],
            tuple(content["queries"]),
            tuple(content["keys"]),
            unpack_weights(content["weights"], may_attend),
            tuple(content["predicts"]),
            content["causal"],
            None,
            tuple(content["query_words"]),
            tuple(content["key_words"]),
            may_attend,
        )
