"""GPT-2 (Radford et al. 2019): a pre-norm language model with learned positions."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

from torch import Tensor

from regard.interchange.config import Epsilon, HuggingFaceConfig, Layers, Rate, Size
from regard.interchange.families.base import Family, Take, activation


class Config(HuggingFaceConfig):
    """config.json of GPT-2."""

    aliases: ClassVar[Mapping[str, str]] = {
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    }
    harmless: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "dropout": ("embd_pdrop", "attn_pdrop"),
        "the number of positions again, in old files": ("n_ctx",),
        "the order of a product": ("reorder_and_upcast_attn",),
        "the head of another task": (
            "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
            "summary_first_dropout",
        ),
    }  # fmt: skip

    n_embd: Size
    n_head: Size
    n_layer: Layers
    n_positions: Size
    n_inner: Size | None = None
    activation_function: str = "gelu_new"
    layer_norm_epsilon: Epsilon = 1e-5
    resid_pdrop: Rate = 0.1
    tie_word_embeddings: bool = True
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False


def spec(config: Config) -> dict[str, Any]:
    return {
        "kind": "language-model",
        "dim": config.n_embd,
        "heads": config.n_head,
        "ffn_dim": config.n_inner or 4 * config.n_embd,
        "layers": config.n_layer,
        "dropout": config.resid_pdrop,
        "position": "learned",
        "norm": {"kind": "layer", "eps": config.layer_norm_epsilon},
        "feed_forward": {
            "kind": "dense",
            "activation": activation(config.activation_function, "activation_function"),
        },
        "scale_embedding": False,
        "tie_embeddings": config.tie_word_embeddings,
        "max_length": config.n_positions,
    }


def names(config: Config) -> dict[str, Take]:
    takes = {
        "decoder.embedding.tokens.weight": Take("wte.weight"),
        "decoder.embedding.position.table": Take("wpe.weight"),
        "decoder.norm.gain": Take("ln_f.weight"),
        "decoder.norm.bias": Take("ln_f.bias"),
    }
    if not config.tie_word_embeddings:
        takes["decoder.output.weight"] = Take("lm_head.weight")
    for layer in range(config.n_layer):
        ours, theirs = f"decoder.blocks.{layer}", f"h.{layer}"
        for norm, name in (("attention_residual", "ln_1"), ("feed_forward_residual", "ln_2")):
            takes[f"{ours}.{norm}.norm.gain"] = Take(f"{theirs}.{name}.weight")
            takes[f"{ours}.{norm}.norm.bias"] = Take(f"{theirs}.{name}.bias")
        # Conv1D stores matrices transposed, and queries, keys and values in one.
        for part, letter in enumerate("qkv"):
            takes[f"{ours}.attention.w_{letter}.weight"] = Take(
                f"{theirs}.attn.c_attn.weight", partial(_third, part=part)
            )
            takes[f"{ours}.attention.w_{letter}.bias"] = Take(
                f"{theirs}.attn.c_attn.bias", partial(_third, part=part)
            )
        for own, name in (
            ("attention.w_o", "attn.c_proj"),
            ("feed_forward.up_proj", "mlp.c_fc"),
            ("feed_forward.down_proj", "mlp.c_proj"),
        ):
            takes[f"{ours}.{own}.weight"] = Take(f"{theirs}.{name}.weight", lambda w: w.mT)
            takes[f"{ours}.{own}.bias"] = Take(f"{theirs}.{name}.bias")
    return takes


def _third(qkv: Tensor, part: int) -> Tensor:
    """Return queries (0), keys (1) or values (2) of the matrix or bias of all three."""
    return qkv.T.chunk(3)[part] if qkv.dim() == 2 else qkv.chunk(3)[part]


def tied(config: Config) -> dict[str, str]:
    return {"lm_head.weight": "wte.weight"} if config.tie_word_embeddings else {}


FAMILY = Family(
    types=("gpt2",),
    task="language-model",
    config=Config,
    spec=spec,
    names=names,
    tied=tied,
    left_out={r"h\.\d+\.attn\.(masked_)?bias": "the causal mask, which Regard computes"},
    prefixes=("transformer.", ""),
)
