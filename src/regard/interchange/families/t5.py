"""T5 (Raffel et al. 2020): a pre-norm encoder-decoder with RMS norms and a bias for each distance.

Differences are folded into the weights. T5 does not divide attention scores by √K, so the queries
are multiplied by √K. Its first version, with tied embeddings, divides the states by √D before the
output layer, so the output layer is imported untied. The distance biases that its layers share are
copied to each layer.
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
    takes = {
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
        takes[f"{stack}.norm.gain"] = Take(f"{stack}.final_layer_norm.weight")
        sublayers = [("attention", "attention_residual", "SelfAttention")]
        sublayers += [("cross", "cross_residual", "EncDecAttention")] if stack == "decoder" else []
        for layer in range(count):
            own, their = f"{stack}.blocks.{layer}", f"{stack}.block.{layer}.layer"
            for place, (ours, around, theirs) in enumerate(sublayers):
                takes[f"{own}.{around}.norm.gain"] = Take(f"{their}.{place}.layer_norm.weight")
                for letter in "qkvo":
                    change = (lambda w: w * queries) if letter == "q" else (lambda w: w)
                    takes[f"{own}.{ours}.w_{letter}.weight"] = Take(
                        f"{their}.{place}.{theirs}.{letter}.weight", change
                    )
            takes[f"{own}.attention.position.table"] = Take(
                f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                partial(_by_distance, config=config, both_ways=stack == "encoder"),
            )
            last = len(sublayers)
            network = f"{their}.{last}.DenseReluDense"
            takes[f"{own}.feed_forward_residual.norm.gain"] = Take(
                f"{their}.{last}.layer_norm.weight"
            )
            takes[f"{own}.feed_forward.down_proj.weight"] = Take(f"{network}.wo.weight")
            if gated:
                takes[f"{own}.feed_forward.gate_proj.weight"] = Take(f"{network}.wi_0.weight")
                takes[f"{own}.feed_forward.up_proj.weight"] = Take(f"{network}.wi_1.weight")
            else:
                takes[f"{own}.feed_forward.up_proj.weight"] = Take(f"{network}.wi.weight")
    return takes


def _by_distance(table: Tensor, config: Config, both_ways: bool) -> Tensor:
    """T5's biases (buckets, heads) as one for each distance (heads, 2 · CLIP + 1)."""
    longest = config.get("relative_attention_max_distance", 128)
    require({"longest": longest}, "longest", range(1, CLIP + 1))
    distances = torch.arange(-CLIP, CLIP + 1)
    return table[_bucket(distances, len(table), longest, both_ways)].T


def _bucket(distances: Tensor, buckets: int, longest: int, both_ways: bool) -> Tensor:
    """Bucket of each distance key − query: one for each small distance, then logarithmic."""
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
