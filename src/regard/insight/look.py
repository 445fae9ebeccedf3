"""What a model looked at while it read one text, as a picture."""

from dataclasses import replace
from typing import Any

import torch

from regard.data.sources.trees import Parsed
from regard.errors import DataError
from regard.insight.downsample import bearable
from regard.insight.forward_passes import Part, Reading, reading
from regard.insight.picture import Panel, Picture
from regard.insight.seen import Seen
from regard.insight.views.expert_routing import experts
from regard.insight.views.influence import CAPTION, influence
from regard.insight.views.logit_lens import lens
from regard.insight.views.rollout import flows
from regard.insight.views.steps import steps
from regard.insight.watch import USUAL, watch
from regard.layers.base import PerTokenModule
from regard.models.base import parameter_count

IN_DETAIL = 128  # words: up to here all vectors and scores are shown
FOLLOWED = 512  # words: up to here they are followed through the layers


def look(loaded: Any, text: str | Parsed, to: str | None = None, title: str = "") -> Picture:
    """Run a text through what `regard.load` gave, watched: a translation, a text, a judgement."""
    shown = text.text if isinstance(text, Parsed) else text
    return bearable(picture(reading(loaded, text, to), shown, title))


def picture(read: Reading, text: str, title: str = "") -> Picture:
    """All that can be shown of a reading."""
    longest = max(len(part.queries.pieces) for part in read.parts)
    in_detail, followed = longest <= IN_DETAIL, longest <= FOLLOWED
    points = USUAL | {"scores"} if in_detail else {"weights", "residual", "experts"}
    points |= {"visible"}
    with torch.inference_mode(), watch(read.model, points) as seen:
        read.run()
    looking = tuple(part for part in read.parts if seen.has(part.blocks, part.attention))
    if not looking:
        return _without_attention(read, seen, text, title)
    read = replace(read, parts=looking)
    notes = []
    if not in_detail:
        notes.append(f"Beyond {IN_DETAIL} words, scores and the steps behind them are left out.")
    if not followed:
        notes.append(f"Beyond {FOLLOWED} words, words are not followed through the layers.")
    return Picture(
        title=title,
        caption=_caption(read, seen),
        source=text,
        output=read.output,
        panels=tuple(_panel(part, seen, in_detail) for part in read.parts) + experts(read, seen),
        flows=flows(read, seen) if followed else (),
        lens=lens(read, seen) if followed else None,
        steps=steps(read, seen) if in_detail else (),
        notes=tuple(notes),
    )


def _without_attention(read: Reading, seen: Seen, text: str, title: str) -> Picture:
    """What moves what, where nothing looks at anything."""
    longest = max(len(part.keys.pieces) for part in read.parts)
    if longest > FOLLOWED:
        raise DataError(
            f"this model has no attention to show, and what moves what is worked out for up to "
            f"{FOLLOWED} tokens: give a text shorter than these {longest:,}."
        )
    return Picture(
        title=title,
        caption=f"{_kind(read)}, {_size(read)}; {CAPTION}",
        source=text,
        output=read.output,
        panels=influence(read),
        lens=lens(read, seen),
    )


def _panel(part: Part, seen: Seen, in_detail: bool) -> Panel:
    return Panel(
        part.name,
        part.title,
        part.queries.pieces,
        part.keys.pieces,
        seen.stack(part.blocks, part.attention),
        part.predicts,
        part.causal,
        seen.stack(part.blocks, part.attention, "scores") if in_detail else None,
        part.queries.numbers,
        part.keys.numbers,
        seen.stack(part.blocks, part.attention, "visible")[:, 0] > 0,
    )


def _caption(read: Reading, seen: Seen) -> str:
    """Its kind, its layers and heads, its size."""
    own = [part for part in read.parts if part.attention != "cross"] or read.parts
    stacks = [seen.stack(part.blocks, part.attention) for part in own]
    layers = " + ".join(str(len(stack)) for stack in stacks)
    heads = stacks[0].shape[1]
    return f"{_kind(read)}, {_many(layers, 'layer')}, {_many(str(heads), 'head')}, {_size(read)}"


def _many(count: str, what: str) -> str:
    return f"{count} {what}{'s' * (count != '1')}"


def _kind(read: Reading) -> str:
    name = type(read.model).__name__
    kind = "".join(f"-{sign.lower()}" if sign.isupper() else sign for sign in name)
    steps = any(isinstance(part, PerTokenModule) for part in read.model.modules())
    return f"recurrent{kind}" if steps else kind.strip("-")


def _size(read: Reading) -> str:
    return f"{parameter_count(read.model) / 1e6:.1f} M parameters"
