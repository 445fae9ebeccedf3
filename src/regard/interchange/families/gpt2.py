"""GPT-2 (Radford et al. 2019): a pre-norm language model with learned positions."""

from functools import partial
from typing import Any

from torch import Tensor

from regard.interchange.families.base import Config, Family, Take, activation, needed, require


def spec(config: Config) -> dict[str, Any]:
    require(config, "scale_attn_weights", [True])
    require(config, "scale_attn_by_inverse_layer_idx", [False])
    require(config, "add_cross_attention", [False])
    dim = needed(config, "n_embd")
    return {
        "kind": "language-model",
        "dim": dim,
        "heads": needed(config, "n_head"),
        "ffn_dim": config.get("n_inner") or 4 * dim,
        "layers": needed(config, "n_layer"),
        "dropout": config.get("resid_pdrop", 0.1),
        "position": "learned",
        "norm": {"kind": "layer", "eps": config.get("layer_norm_epsilon", 1e-5)},
        "feed_forward": {
            "kind": "dense",
            "activation": activation(
                {"activation_function": "gelu_new", **config}, "activation_function"
            ),
        },
        "scale_embedding": False,
        "max_length": needed(config, "n_positions"),
    }


def names(config: Config) -> dict[str, Take]:
    takes = {
        "decoder.embedding.tokens.weight": Take("wte.weight"),
        "decoder.embedding.position.table": Take("wpe.weight"),
        "decoder.norm.gain": Take("ln_f.weight"),
        "decoder.norm.bias": Take("ln_f.bias"),
    }
    for layer in range(config["n_layer"]):
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
            takes[f"{ours}.{own}.weight"] = Take(f"{theirs}.{name}.weight", lambda w: w.T)
            takes[f"{ours}.{own}.bias"] = Take(f"{theirs}.{name}.bias")
    return takes


def _third(qkv: Tensor, part: int) -> Tensor:
    """Return queries (0), keys (1) or values (2) of the matrix or bias of all three."""
    return qkv.T.chunk(3)[part] if qkv.dim() == 2 else qkv.chunk(3)[part]


FAMILY = Family(
    types=("gpt2",),
    task="language-model",
    spec=spec,
    names=names,
    left_out=(r"h\.\d+\.attn\.(masked_)?bias", r"lm_head\.weight"),
    prefixes=("transformer.", ""),
)
