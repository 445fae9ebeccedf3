"""T5 (Raffel et al. 2020): an encoder-decoder, RMS norms first, a bias for each distance.

What T5 does elsewhere is folded into the weights: its scores are not divided by √K, so the queries
are multiplied by it; its first version, whose embeddings are tied, divides the states by √D before
the output layer, so that layer has weights of its own. The biases that its layers share become each
layer's.
"""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.interchange.families.base import Config, Family, Take, activations, needed, require

CLIP = 128


def spec(config: Config) -> dict[str, Any]:
    kind = config.get("feed_forward_proj", "relu")
    gated, inner = kind.startswith("gated-"), kind.removeprefix("gated-")
    # "gated-gelu" means the tanh form, for the sake of the first T5 checkpoints that had it.
    function = "gelu-tanh" if kind == "gated-gelu" else activations().get(inner)
    require({"feed_forward_proj": kind}, "feed_forward_proj", [kind] if function else ["relu"])
    return {
        "kind": "encoder-decoder",
        "dim": needed(config, "d_model"),
        "heads": needed(config, "num_heads"),
        "head_dim": needed(config, "d_kv"),
        "ffn_dim": needed(config, "d_ff"),
        "layers": needed(config, "num_layers"),
        "decoder_layers": config.get("num_decoder_layers") or config["num_layers"],
        "dropout": config.get("dropout_rate", 0.1),
        "position": {"kind": "distance", "clip": CLIP},
        "norm": {"kind": "rms", "eps": config.get("layer_norm_epsilon", 1e-6)},
        "feed_forward": {"kind": "gated", "activation": function}
        if gated
        else {"kind": "dense", "activation": function, "bias": False},
        "bias": False,
        "scale_embedding": False,
        "tie_embeddings": "embeddings",
        "max_length": config.get("n_positions") or 512,
    }


def names(config: Config) -> dict[str, Take]:
    queries = math.sqrt(config["d_kv"])
    tied = config.get("tie_word_embeddings", True)
    # Older files say by the tie alone whether states are scaled; newer ones say both.
    down = config["d_model"] ** -0.5 if config.get("scale_decoder_outputs", tied) else 1.0
    found = {
        "encoder.embedding.tokens.weight": Take("shared.weight"),
        "decoder.output.weight": Take(
            "shared.weight" if tied else "lm_head.weight", lambda w: w * down
        ),
    }
    layers = {
        "encoder": config["num_layers"],
        "decoder": config.get("num_decoder_layers") or config["num_layers"],
    }
    gated = config.get("feed_forward_proj", "relu").startswith("gated-")
    for stack, count in layers.items():
        found[f"{stack}.norm.gain"] = Take(f"{stack}.final_layer_norm.weight")
        sublayers = [("attention", "attention_residual", "SelfAttention")]
        sublayers += [("cross", "cross_residual", "EncDecAttention")] if stack == "decoder" else []
        for layer in range(count):
            own, their = f"{stack}.blocks.{layer}", f"{stack}.block.{layer}.layer"
            for place, (ours, around, theirs) in enumerate(sublayers):
                found[f"{own}.{around}.norm.gain"] = Take(f"{their}.{place}.layer_norm.weight")
                for letter in "qkvo":
                    change = (lambda w: w * queries) if letter == "q" else (lambda w: w)
                    found[f"{own}.{ours}.w_{letter}.weight"] = Take(
                        f"{their}.{place}.{theirs}.{letter}.weight", change
                    )
            found[f"{own}.attention.position.table"] = Take(
                f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                partial(_by_distance, config=config, both_ways=stack == "encoder"),
            )
            last = len(sublayers)
            network = f"{their}.{last}.DenseReluDense"
            found[f"{own}.feed_forward_residual.norm.gain"] = Take(
                f"{their}.{last}.layer_norm.weight"
            )
            found[f"{own}.feed_forward.down_proj.weight"] = Take(f"{network}.wo.weight")
            if gated:
                found[f"{own}.feed_forward.gate_proj.weight"] = Take(f"{network}.wi_0.weight")
                found[f"{own}.feed_forward.up_proj.weight"] = Take(f"{network}.wi_1.weight")
            else:
                found[f"{own}.feed_forward.up_proj.weight"] = Take(f"{network}.wi.weight")
    return found


def _by_distance(table: Tensor, config: Config, both_ways: bool) -> Tensor:
    """T5's biases (buckets, heads) as one for each distance (heads, 2 · CLIP + 1)."""
    longest = config.get("relative_attention_max_distance", 128)
    require({"longest": longest}, "longest", range(1, CLIP + 1))
    distances = torch.arange(-CLIP, CLIP + 1)
    return table[_bucket(distances, len(table), longest, both_ways)].T


def _bucket(distances: Tensor, buckets: int, longest: int, both_ways: bool) -> Tensor:
    """Which bucket a distance key − query is in: one each, then by the logarithm."""
    first = torch.zeros_like(distances)
    if both_ways:
        buckets //= 2
        first = (distances > 0).long() * buckets
        size = distances.abs()
    else:
        size = (-distances).clamp(min=0)
    exact = buckets // 2
    share = torch.log(size.clamp(min=1).float() / exact) / math.log(longest / exact)
    larger = (exact + (share * (buckets - exact)).long()).clamp(max=buckets - 1)
    return first + torch.where(size < exact, size, larger)


FAMILY = Family(
    types=("t5",),
    task="translation",
    spec=spec,
    names=names,
    left_out=(r".*embed_tokens\.weight", r"lm_head\.weight"),
)
