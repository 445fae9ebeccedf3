"""Panels of expert routing in a mixture of experts: tokens as queries, experts as keys."""

from regard.insight.forward_passes import ForwardPass
from regard.insight.panels.base import EXPERTS, Panel
from regard.insight.seen import Seen


def expert_panels(forward_pass: ForwardPass, seen: Seen) -> tuple[Panel, ...]:
    """Return a panel of gate weights for each stack with experts; none where there are none."""
    stacks = {name.rpartition(".")[0].rpartition(".")[0] for name in seen.names("experts")}
    sites = [
        site for site in forward_pass.sites if site.blocks in stacks and site.attention != "cross"
    ]
    return tuple(
        Panel(
            f"{EXPERTS}-{site.name}" if len(sites) > 1 else EXPERTS,
            f"Experts of the {site.name}",
            site.queries.texts,
            tuple(f"expert {number + 1}" for number in range(gates.shape[-1])),
            gates[:, None],
            site.predicts,
        )
        for site in sites
        for gates in [seen.by_layer(site.blocks, "feed_forward", "experts")]
    )
