"""Panels of attention weights, one for each attention of a forward pass."""

from regard.insight.forward_passes import AttentionSite, ForwardPass
from regard.insight.panels.base import Panel
from regard.insight.seen import Seen


def attention_panels(forward_pass: ForwardPass, seen: Seen) -> tuple[Panel, ...]:
    """Return a panel for each attention; with scores where `seen` recorded them."""
    return tuple(_panel(site, seen) for site in forward_pass.sites)


def _panel(site: AttentionSite, seen: Seen) -> Panel:
    has_scores = bool(seen.names("scores"))
    return Panel(
        site.name,
        site.title,
        site.queries.texts,
        site.keys.texts,
        seen.by_layer(site.blocks, site.attention),
        site.predicts,
        site.causal,
        seen.by_layer(site.blocks, site.attention, "scores") if has_scores else None,
        site.queries.words,
        site.keys.words,
        seen.by_layer(site.blocks, site.attention, "may_attend")[:, 0] > 0,
    )
