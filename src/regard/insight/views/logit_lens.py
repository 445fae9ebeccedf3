"""Logit lens (nostalgebraist 2020): the next tokens predicted from each layer's residual stream.

The final norm and the output layer are applied to the residual stream after each layer, as if no
layer followed.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from regard.insight.forward_passes import ForwardPass
from regard.insight.seen import Seen
from regard.insight.views.base import View, ViewData

TOP_K = 5  # predictions for each position and layer


@dataclass(frozen=True)
class LogitLens(ViewData):
    """Next tokens predicted from each layer at each position."""

    tokens: tuple[str, ...]  # the token at each position
    layers: tuple[str, ...]  # the embedding first
    predictions: tuple[tuple[tuple[tuple[str, float], ...], ...], ...]
    """[layer][position]: the most probable next tokens and their probabilities, best first."""

    def to_json(self) -> dict[str, Any]:
        return {
            "tokens": list(self.tokens),
            "layers": list(self.layers),
            "predictions": [
                [[[token, round(p, 6)] for token, p in best] for best in layer]
                for layer in self.predictions
            ],
        }


class Spec(View):
    title: ClassVar[str] = "Logit lens"
    question: ClassVar[str] = "In which layer is the next token decided?"
    order: ClassVar[int] = 70
    points: ClassVar[frozenset[str]] = frozenset({"residual"})
    max_tokens: ClassVar[int | None] = 512
    needs_attention: ClassVar[bool] = False

    @torch.inference_mode()
    def compute(self, run: ForwardPass, seen: Seen) -> LogitLens | None:
        """Compute the lens of a model with a decoder and a residual stream; otherwise None."""
        if not run.decoder or run.tokenizer is None:
            return None
        decoder: Any = run.model.get_submodule(run.decoder)
        names = [f"{run.decoder}.embedding"]
        names += [f"{run.decoder}.blocks.{layer}" for layer in range(len(decoder.blocks))]
        if not set(names) <= set(seen.names("residual")):
            return None
        layers = []
        for name in names:
            logits = decoder.output(decoder.norm(seen.last(name, "residual")[0]))
            best = logits.float().softmax(-1).topk(min(TOP_K, logits.size(-1)))
            rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            layers.append(
                tuple(
                    tuple(zip(run.tokenizer.pieces(ids), values, strict=True))
                    for values, ids in rows
                )
            )
        titles = ("embedding", *(f"layer {number + 1}" for number in range(len(decoder.blocks))))
        tokens = next(site.queries.texts for site in run.sites if site.causal)
        return LogitLens(tokens, titles, tuple(layers))
