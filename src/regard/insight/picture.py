"""Plain data between a model's tensors and whatever draws them.

A `Picture` is one text seen by one model; each of its `Panel`s is one kind of attention. Beside
them it may hold how words flow through the layers (`Flow`), what the model would say after each
layer (`Lens`), and the vectors behind the weights (`Steps`). Nothing here knows about models, HTML
or terminals, so any model can be drawn by any of them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float32]
Places = npt.NDArray[np.bool_]

# The ten colours of the well-known attention figures, one per head; an eleventh head starts again.
HEAD_COLOURS = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)

EXPERTS = "experts"  # what the names of panels begin with whose keys are experts

WEIGHT_ONE = 65535  # a weight of 1 in the 16 bits that a page gets


@dataclass(frozen=True)
class Panel:
    """One kind of attention in one model: who looks (queries) at whom (keys)."""

    name: str
    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Numbers
    """(layers, heads, queries, keys); a row sums to 1, or to 0 where nothing could be seen."""
    predicts: tuple[str, ...] = ()
    """What the model said after each query; empty where it says nothing."""
    causal: bool = False
    scores: Numbers | None = None
    """Like weights, before the softmax: q·k / √K and the positions' bias; −∞ where none may look"""
    query_words: tuple[int, ...] = ()
    """The word that each query is a piece of, counted from 0; empty where that is not known."""
    key_words: tuple[int, ...] = ()
    visible: Places | None = None
    """(layers, queries, keys): True where a query may look; None where that is not known."""

    def __post_init__(self) -> None:
        # A wrong shape would surface much later, as a blank page: better to say it here.
        words = (len(self.queries), len(self.keys))
        if self.weights.ndim != 4 or self.weights.shape[2:] != words:
            raise ValueError(
                f"panel {self.name!r}: weights of shape {self.weights.shape} do not fit "
                f"(layers, heads, {words[0]} queries, {words[1]} keys)"
            )
        if 0 in self.weights.shape[:2]:
            raise ValueError(f"panel {self.name!r}: there must be at least one layer and one head")
        if not np.isfinite(self.weights).all():
            raise ValueError(f"panel {self.name!r}: weights must be finite numbers")
        if self.scores is not None and self.scores.shape != self.weights.shape:
            raise ValueError(f"panel {self.name!r}: scores must have the shape of the weights")
        if self.visible is not None:
            if self.visible.shape != (self.layers, *words):
                raise ValueError(f"panel {self.name!r}: what is visible must be of the same words")
            if (self.weights.any(axis=1) & ~self.visible).any():
                raise ValueError(f"panel {self.name!r}: there are weights where none may look")
        for what, size in (
            (self.predicts, words[0]),
            (self.query_words, words[0]),
            (self.key_words, words[1]),
        ):
            if what and len(what) != size:
                raise ValueError(f"panel {self.name!r}: {len(what)} entries for {size} words")

    @property
    def layers(self) -> int:
        return int(self.weights.shape[0])

    @property
    def heads(self) -> int:
        return int(self.weights.shape[1])

    def to_json(self) -> dict[str, Any]:
        """The panel as plain dicts, lists, strings and numbers."""
        return {
            "name": self.name,
            "title": self.title,
            "queries": list(self.queries),
            "keys": list(self.keys),
            "weights": packed_weights(self.weights, self.visible),
            "visible": None if self.visible is None else packed_places(self.visible),
            "scores": None if self.scores is None else packed(self.scores),
            "predicts": list(self.predicts),
            "causal": self.causal,
            "query_words": list(self.query_words),
            "key_words": list(self.key_words),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Panel:
        """What `to_json` gave, without the scores."""
        # Films that were made before it was told have nothing to say about this.
        kept = content.get("visible")
        visible = None if kept is None else unpacked_places(kept)
        return cls(
            content["name"],
            content["title"],
            tuple(content["queries"]),
            tuple(content["keys"]),
            unpacked_weights(content["weights"], visible),
            tuple(content["predicts"]),
            content["causal"],
            None,
            tuple(content["query_words"]),
            tuple(content["key_words"]),
            visible,
        )


@dataclass(frozen=True)
class Flow:
    """How much of each input word has come to each word after each layer, by one way of telling."""

    name: str  # rollout, gradient
    title: str
    panel: str  # the panel whose words these are
    weights: Numbers  # (layers, words, words): row i after layer l is made of these shares

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "panel": self.panel,
            "weights": packed_weights(self.weights),
        }


@dataclass(frozen=True)
class Lens:
    """What would be said next, were each layer the last (the logit lens)."""

    words: tuple[str, ...]  # after which of them
    layers: tuple[str, ...]  # the embedding first
    likeliest: tuple[tuple[tuple[tuple[str, float], ...], ...], ...]
    """[layer][word]: the likeliest next pieces and their probabilities, best first."""

    def to_json(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "layers": list(self.layers),
            "likeliest": [
                [[[piece, round(p, 6)] for piece, p in best] for best in layer]
                for layer in self.likeliest
            ],
        }


@dataclass(frozen=True)
class Steps:
    """The vectors behind one panel: L layers, H heads, T queries, S keys, K and D sizes."""

    panel: str
    entered: Numbers  # (L, T, D): what is asked with
    remembered: Numbers  # (L, S, D): what is looked at
    queries: Numbers  # (L, H, T, K)
    keys: Numbers  # (L, H, S, K)
    values: Numbers  # (L, H, S, K)
    found: Numbers  # (L, H, T, K): the weighted sums
    output: Numbers  # (L, T, D): the heads joined, times W_O

    def to_json(self) -> dict[str, Any]:
        names = ("entered", "remembered", "queries", "keys", "values", "found", "output")
        return {"panel": self.panel, **{name: packed(getattr(self, name)) for name in names}}


@dataclass(frozen=True)
class Picture:
    """One text as one model saw it."""

    title: str
    caption: str
    source: str
    output: str
    panels: tuple[Panel, ...]
    flows: tuple[Flow, ...] = ()
    lens: Lens | None = None
    steps: tuple[Steps, ...] = ()
    notes: tuple[str, ...] = ()
    """What was summarised or left out, in whole sentences."""

    def __post_init__(self) -> None:
        names = [panel.name for panel in self.panels]
        if len(set(names)) != len(names):
            raise ValueError(f"panels need names of their own, got {', '.join(names)}")

    def panel(self, name: str) -> Panel:
        """Return the panel of that name."""
        for panel in self.panels:
            if panel.name == name:
                return panel
        known = ", ".join(panel.name for panel in self.panels) or "none"
        raise LookupError(f"no panel is named {name!r}; there are: {known}")

    def to_json(self) -> dict[str, Any]:
        """The picture as plain dicts, lists, strings and numbers."""
        return {
            "title": self.title,
            "caption": self.caption,
            "source": self.source,
            "output": self.output,
            "colours": list(HEAD_COLOURS),
            "panels": [panel.to_json() for panel in self.panels],
            "flows": [flow.to_json() for flow in self.flows],
            "lens": None if self.lens is None else self.lens.to_json(),
            "steps": [steps.to_json() for steps in self.steps],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Picture:
        """The panels of what `to_json` gave, and its texts."""
        return cls(
            title=content["title"],
            caption=content["caption"],
            source=content["source"],
            output=content["output"],
            panels=tuple(map(Panel.from_json, content["panels"])),
            notes=tuple(content["notes"]),
        )

    def _repr_html_(self) -> str:
        """A notebook shows the page in a frame of its own."""
        from html import escape

        from regard.insight.page.render import render

        page = escape(render(film(self)), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="900" style="border:0"></iframe>'


@dataclass(frozen=True)
class Scene:
    """What is seen at once: one picture, or two side by side."""

    title: str  # such as "step 200"; empty where there is one scene
    pictures: tuple[Picture, ...]

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, "pictures": [each.to_json() for each in self.pictures]}


@dataclass(frozen=True)
class Film:
    """Scenes one after the other: how attention formed while a model was trained."""

    scenes: tuple[Scene, ...]

    def to_json(self) -> dict[str, Any]:
        return {"scenes": [scene.to_json() for scene in self.scenes]}


def film(*pictures: Picture) -> Film:
    """One scene of one picture, or of two side by side."""
    return Film((Scene("", pictures),))


def packed(numbers: Numbers) -> dict[str, Any]:
    """An array as text: 32 bits a number, little-endian."""
    return _packed(numbers.astype("<f4"), "f32")


def packed_weights(weights: Numbers, visible: Places | None = None) -> dict[str, Any]:
    """Numbers from 0 to 1 in 16 bits: half the size, and off by less than an eye or a line shows.

    Where it is known who may look at whom, only those weights are written: layer by layer, head by
    head.
    """
    written = weights
    if visible is not None:
        layers = zip(weights, visible, strict=True)
        written = np.concatenate([layer[:, places].ravel() for layer, places in layers])
    whole = np.round(np.clip(written, 0, 1).astype(np.float64) * WEIGHT_ONE)
    return {**_packed(whole.astype("<u2"), "u16"), "shape": list(weights.shape)}


def unpacked_weights(content: dict[str, Any], visible: Places | None = None) -> Numbers:
    """What `packed_weights` was given, with zeros where nobody may look."""
    written = np.frombuffer(base64.b64decode(content["data"]), "<u2").astype(np.float32)
    if visible is None:
        return (written / WEIGHT_ONE).reshape(content["shape"])
    weights = np.zeros(content["shape"], np.float32)
    weights[np.broadcast_to(visible[:, None], weights.shape)] = written / WEIGHT_ONE
    return weights


def packed_places(places: Places) -> dict[str, Any]:
    """A bit a place, the lowest first."""
    return {**_packed(np.packbits(places, bitorder="little"), "bits"), "shape": list(places.shape)}


def unpacked_places(content: dict[str, Any]) -> Places:
    octets = np.frombuffer(base64.b64decode(content["data"]), np.uint8)
    places = np.unpackbits(octets, count=int(np.prod(content["shape"])), bitorder="little")
    return places.reshape(content["shape"]).astype(bool)


def _packed(array: npt.NDArray[Any], kind: str) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"type": kind, "shape": list(array.shape), "data": data}
