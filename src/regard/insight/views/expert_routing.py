"""Which expert each word was given to, layer by layer: words as queries, experts as keys."""

from regard.insight.forward_passes import Reading
from regard.insight.picture import EXPERTS, Panel
from regard.insight.seen import Seen


def experts(reading: Reading, seen: Seen) -> tuple[Panel, ...]:
    """A panel for each stack with experts; none where there are none."""
    used = {name.rpartition(".")[0].rpartition(".")[0] for name in seen.names("experts")}
    parts = [part for part in reading.parts if part.blocks in used and part.attention != "cross"]
    return tuple(
        Panel(
            f"{EXPERTS}-{part.name}" if len(parts) > 1 else EXPERTS,
            f"Experts of the {part.name}",
            part.queries.pieces,
            tuple(f"expert {number + 1}" for number in range(gates.shape[-1])),
            gates[:, None],
            part.predicts,
        )
        for part in parts
        for gates in [seen.stack(part.blocks, "feed_forward", "experts")]
    )
