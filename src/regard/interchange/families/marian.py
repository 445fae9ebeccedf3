"""Marian (Junczys-Dowmunt et al. 2018), post-norm as in the paper, and Pegasus, pre-norm."""

from typing import Any

from regard.interchange.families.base import (
    Config,
    Family,
    Take,
    activation,
    needed,
    renamed,
    require,
)


def spec(config: Config) -> dict[str, Any]:
    require(config, "share_encoder_decoder_embeddings", [True])
    require(config, "tie_word_embeddings", [True])
    heads, ffn_dim = needed(config, "encoder_attention_heads"), needed(config, "encoder_ffn_dim")
    require(config, "decoder_attention_heads", [heads])
    require(config, "decoder_ffn_dim", [ffn_dim])
    return {
        "kind": "encoder-decoder",
        "dim": needed(config, "d_model"),
        "heads": heads,
        "ffn_dim": ffn_dim,
        "layers": needed(config, "encoder_layers"),
        "decoder_layers": needed(config, "decoder_layers"),
        "dropout": config.get("dropout", 0.1),
        "position": {"kind": "sinusoidal", "layout": "halves"},
        "norm_first": config.get("model_type") == "pegasus",
        "feed_forward": {"kind": "dense", "activation": activation(config, "activation_function")},
        "scale_embedding": config.get("scale_embedding", False),
        "output_bias": True,
        "max_length": needed(config, "max_position_embeddings"),
    }


def names(config: Config) -> dict[str, Take]:
    takes = {
        "encoder.embedding.tokens.weight": Take("model.shared.weight"),
        "decoder.output.bias": Take("final_logits_bias", lambda bias: bias.flatten()),
    }
    attention = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj"}
    sublayers = {
        "attention": ("self_attn", "attention_residual"),
        "cross": ("encoder_attn", "cross_residual"),
    }
    for stack, layers in (
        ("encoder", config["encoder_layers"]),
        ("decoder", config["decoder_layers"]),
    ):
        for layer in range(layers):
            own, their = f"{stack}.blocks.{layer}", f"model.{stack}.layers.{layer}"
            linear = {"feed_forward.up_proj": "fc1", "feed_forward.down_proj": "fc2"}
            norms = {"feed_forward_residual.norm": "final_layer_norm"}
            for ours, (theirs, around) in sublayers.items():
                if ours == "cross" and stack == "encoder":
                    continue
                linear |= {f"{ours}.{a}": f"{theirs}.{b}" for a, b in attention.items()}
                norms[f"{around}.norm"] = f"{theirs}_layer_norm"
            takes |= renamed(
                {f"{own}.{ours}": f"{their}.{theirs}" for ours, theirs in linear.items()},
                {f"{own}.{ours}": f"{their}.{theirs}" for ours, theirs in norms.items()},
            )
        if config.get("model_type") == "pegasus":
            takes[f"{stack}.norm.gain"] = Take(f"model.{stack}.layer_norm.weight")
            takes[f"{stack}.norm.bias"] = Take(f"model.{stack}.layer_norm.bias")
    return takes


FAMILY = Family(
    types=("marian", "pegasus"),
    task="translation",
    spec=spec,
    names=names,
    left_out=(r".*embed_positions\.weight", r".*embed_tokens\.weight", r"lm_head\.weight"),
)
