"""Run a model on one text with its activations recorded, and return a picture to draw."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch

from regard.data.sources.trees import ParsedText
from regard.errors import DataError
from regard.insight.downsample import downsample
from regard.insight.familiarity import unlike_training
from regard.insight.forward_passes import ForwardPass, forward_pass
from regard.insight.panels.attention import attention_panels
from regard.insight.panels.expert_routing import expert_panels
from regard.insight.panels.influence import CAPTION, influence_panels
from regard.insight.picture import Picture
from regard.insight.seen import Seen
from regard.insight.views.base import View, ViewData, all_views
from regard.insight.watch import watch
from regard.layers.base import PerTokenModule
from regard.models.base import parameter_count

MAX_TOKENS_OF_INFLUENCE = 512  # one backward pass for each output token
ALWAYS = frozenset({"weights", "may_attend", "experts"})  # recorded for the panels


def look(
    loaded: Any,
    text: str | ParsedText,
    to: str | None = None,
    title: str = "",
    views: Collection[str] | None = None,
    output: str | None = None,
) -> Picture:
    """Run a text through a loaded model and return its attention as a picture.

    Args:
        loaded: a predictor as returned by `regard.load`.
        text: the text, or a parsed sentence for a classifier that needs trees.
        to: the target language of a translator; by default the other one.
        title: the title of the page.
        views: names of the page views whose data is computed; by default all.
        output: a translation to show; by default that of greedy decoding.
    """
    source = text.text if isinstance(text, ParsedText) else text
    run = forward_pass(loaded, text, to, output)
    picture = downsample(picture_of(run, source, title, views))
    warning = unlike_training(loaded, source)
    return replace(picture, warnings=(warning,)) if warning else picture


def picture_of(
    run: ForwardPass, text: str, title: str = "", views: Collection[str] | None = None
) -> Picture:
    """Return a picture of a forward pass, with the data of the views that its length allows."""
    longest = max(len(site.queries.texts) for site in run.sites)
    requested = [view for view in all_views() if views is None or view.kind() in views]
    shown = [view for view in requested if view.max_tokens is None or longest <= view.max_tokens]
    points = ALWAYS.union(*(view.points for view in shown))
    with torch.inference_mode(), watch(run.model, points) as seen:
        run.run()
    sites = tuple(site for site in run.sites if seen.has(site.blocks, site.attention))
    if not sites:
        return _without_attention(run, seen, text, title, shown)
    run = replace(run, sites=sites)
    return Picture(
        title=title,
        caption=_caption(run, seen),
        source=text,
        output=run.output,
        panels=attention_panels(run, seen) + expert_panels(run, seen),
        views=_data(shown, run, seen),
        notes=_notes([view for view in requested if view not in shown]),
    )


def _data(views: Collection[View], run: ForwardPass, seen: Seen) -> dict[str, ViewData]:
    computed = {view.kind(): view.compute(run, seen) for view in views}
    return {name: data for name, data in computed.items() if data is not None}


def _notes(omitted: Collection[View]) -> tuple[str, ...]:
    """Name the views that are omitted for a text of this length, one sentence for each limit."""
    limits = sorted({view.max_tokens for view in omitted if view.max_tokens is not None})
    return tuple(
        f"Omitted beyond {limit} tokens: "
        + ", ".join(view.title for view in omitted if view.max_tokens == limit)
        + "."
        for limit in limits
    )


def _without_attention(
    run: ForwardPass, seen: Seen, text: str, title: str, views: Collection[View]
) -> Picture:
    """Return a picture of gradients, for a model without attention."""
    longest = max(len(site.keys.texts) for site in run.sites)
    if longest > MAX_TOKENS_OF_INFLUENCE:
        raise DataError(
            f"this model has no attention to show, and gradients are computed for up to "
            f"{MAX_TOKENS_OF_INFLUENCE} tokens: give a text shorter than these {longest:,}."
        )
    return Picture(
        title=title,
        caption=f"{_kind(run)}, {_size(run)}; {CAPTION}",
        source=text,
        output=run.output,
        panels=influence_panels(run),
        views=_data([view for view in views if not view.needs_attention], run, seen),
    )


def _caption(run: ForwardPass, seen: Seen) -> str:
    """Return the model's kind, its numbers of layers and heads, and its size."""
    own = [site for site in run.sites if site.attention != "cross"] or run.sites
    stacks = [seen.by_layer(site.blocks, site.attention) for site in own]
    layers = " + ".join(str(len(stack)) for stack in stacks)
    heads = stacks[0].shape[1]
    return f"{_kind(run)}, {_plural(layers, 'layer')}, {_plural(str(heads), 'head')}, {_size(run)}"


def _plural(count: str, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != '1')}"


def _kind(run: ForwardPass) -> str:
    name = type(run.model).__name__
    kind = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
    is_recurrent = any(isinstance(module, PerTokenModule) for module in run.model.modules())
    return f"recurrent{kind}" if is_recurrent else kind.strip("-")


def _size(run: ForwardPass) -> str:
    return f"{parameter_count(run.model) / 1e6:.1f} M parameters"
