"""The logit lens (nostalgebraist 2020): what would be said next, were each layer the last?

The residual stream keeps one vector a word from the embedding on. Read it after any layer with the
final norm and the output layer, as if nothing followed.
"""

from typing import Any

import torch

from regard.insight.forward_passes import Reading
from regard.insight.picture import Lens
from regard.insight.seen import Seen

BEST = 5  # words shown for each place


@torch.inference_mode()
def lens(reading: Reading, seen: Seen) -> Lens | None:
    """For a reading whose model says what comes next; `seen` has its residual stream."""
    if not reading.decoder or reading.tokenizer is None:
        return None
    decoder: Any = reading.model.get_submodule(reading.decoder)
    names = [f"{reading.decoder}.embedding"]
    names += [f"{reading.decoder}.blocks.{layer}" for layer in range(len(decoder.blocks))]
    if not set(names) <= set(seen.names("residual")):
        return None  # it has no stream of one vector a word
    layers = []
    for name in names:
        logits = decoder.output(decoder.norm(seen.last(name, "residual")[0]))
        best = logits.float().softmax(-1).topk(min(BEST, logits.size(-1)))
        rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        layers.append(
            tuple(
                tuple(zip(reading.tokenizer.pieces(ids), values, strict=True))
                for values, ids in rows
            )
        )
    titles = ("embedding", *(f"layer {number + 1}" for number in range(len(decoder.blocks))))
    words = next(part.queries.pieces for part in reading.parts if part.causal)
    return Lens(words, titles, tuple(layers))
