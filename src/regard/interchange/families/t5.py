"""T5 (Raffel et al. 2020): a pre-norm encoder-decoder with RMS norms and a bias for each distance.

Differences are folded into the weights. T5 does not divide attention scores by √K, so the queries
are multiplied by √K. Its first version, with tied embeddings, divides the states by √D before the
output layer, so the output layer is imported untied. The distance biases that its layers share are
copied to each layer.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from regard.errors import DataError
from regard.interchange.config import Epsilon, HuggingFaceConfig, Layers, Rate, Size
from regard.interchange.families.base import Family, Take, activations


class Config(HuggingFaceConfig):
    """config.json of T5."""

    aliases: ClassVar[Mapping[str, str]] = {
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
    }

    d_model: Size
    num_heads: Size
    d_kv: Size
    d_ff: Size
    num_layers: Layers
    num_decoder_layers: Layers | None = None
    dropout_rate: Rate = 0.1
    layer_norm_epsilon: Epsilon = 1e-6
    relative_attention_num_buckets: Annotated[int, Field(ge=4, le=1 << 10)] = 32
    relative_attention_max_distance: Annotated[int, Field(gt=0, le=1 << 12)] = 128
    feed_forward_proj: str = "relu"
    dense_act_fn: str | None = None  # derived from feed_forward_proj, as is_gated_act
    is_gated_act: bool | None = None
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None
    n_positions: Size | None = None

    @property
    def gated(self) -> bool:
        return self.feed_forward_proj.startswith("gated-")

    @property
    def activation(self) -> str:
        """The activation by transformers' name."""
        # "gated-gelu" means the tanh form, for the sake of the first T5 checkpoints that had it.
        if self.feed_forward_proj == "gated-gelu":
            return "gelu_new"
        return self.feed_forward_proj.removeprefix("gated-")

    @property
    def scaled(self) -> bool:
        """True if the decoder's states are divided by √D before the output layer.

        Older files say it by tied embeddings alone; newer ones have a key of its own.
        """
        if self.scale_decoder_outputs is None:
            return self.tie_word_embeddings
        return self.scale_decoder_outputs

    @property
    def decoder_layers(self) -> int:
        return self.num_decoder_layers or self.num_layers

    @property
    def clip(self) -> int:
        """The distance from which all have one bias."""
        return max(self.relative_attention_max_distance, self.relative_attention_num_buckets)

    @model_validator(mode="after")
    def _check_consistent(self) -> Self:
        if self.dense_act_fn not in (None, self.activation) or (
            self.is_gated_act not in (None, self.gated)
        ):
            raise ValueError(
                f"dense_act_fn is {self.dense_act_fn!r}, is_gated_act {self.is_gated_act!r} and "
                f"feed_forward_proj {self.feed_forward_proj!r}, which do not agree"
            )
        if self.relative_attention_max_distance <= self.relative_attention_num_buckets // 2:
            raise ValueError(
                f"relative_attention_max_distance is {self.relative_attention_max_distance}, too "
                f"small for {self.relative_attention_num_buckets} buckets"
            )
        return self


def spec(config: Config) -> dict[str, Any]:
    function = activations().get(config.activation)
    if function is None:
        raise DataError(
            f"config.json: feed_forward_proj is {config.feed_forward_proj!r}, which Regard does "
            f"not support (supported: {', '.join(activations())}, also with gated- before them)."
        )
    return {
        "kind": "encoder-decoder",
        "dim": config.d_model,
        "heads": config.num_heads,
        "head_dim": config.d_kv,
        "ffn_dim": config.d_ff,
        "layers": config.num_layers,
        "decoder_layers": config.decoder_layers,
        "dropout": config.dropout_rate,
        "position": {"kind": "distance", "clip": config.clip},
        "norm": {"kind": "rms", "eps": config.layer_norm_epsilon},
        "feed_forward": {"kind": "gated", "activation": function}
        if config.gated
        else {"kind": "dense", "activation": function, "bias": False},
        "bias": False,
        "scale_embedding": False,
        "tie_embeddings": "embeddings",
        "max_length": config.n_positions or 512,
    }


def names(config: Config) -> dict[str, Take]:
    queries = math.sqrt(config.d_kv)
    down = config.d_model**-0.5 if config.scaled else 1.0
    takes = {
        "encoder.embedding.tokens.weight": Take("shared.weight"),
        "decoder.output.weight": Take(
            "shared.weight" if config.tie_word_embeddings else "lm_head.weight", lambda w: w * down
        ),
    }
    layers = {"encoder": config.num_layers, "decoder": config.decoder_layers}
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
            if config.gated:
                takes[f"{own}.feed_forward.gate_proj.weight"] = Take(f"{network}.wi_0.weight")
                takes[f"{own}.feed_forward.up_proj.weight"] = Take(f"{network}.wi_1.weight")
            else:
                takes[f"{own}.feed_forward.up_proj.weight"] = Take(f"{network}.wi.weight")
    return takes


def _by_distance(table: Tensor, config: Config, both_ways: bool) -> Tensor:
    """T5's biases (buckets, heads) as one for each distance (heads, 2 · clip + 1)."""
    buckets = config.relative_attention_num_buckets
    if len(table) != buckets:
        raise DataError(
            f"config.json: relative_attention_num_buckets is {buckets}, and the weights have "
            f"{len(table)}."
        )
    distances = torch.arange(-config.clip, config.clip + 1)
    longest = config.relative_attention_max_distance
    return table[_bucket(distances, buckets, longest, both_ways)].T


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


def tied(config: Config) -> dict[str, str]:
    names = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
    names += ["lm_head.weight"] if config.tie_word_embeddings else []
    return dict.fromkeys(names, "shared.weight")


# Old files contain a bias of cross-attention, which neither transformers nor Regard computes with.
CROSS_BIAS = r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"

FAMILY = Family(
    types=("t5",),
    task="translation",
    config=Config,
    spec=spec,
    names=names,
    tied=tied,
    left_out={CROSS_BIAS: "a bias that no version of T5 computes with"},
)
