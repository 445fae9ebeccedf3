"""Llama (Touvron et al. 2023): rotary positions, RMS norms, gated feed-forward, grouped queries."""

from typing import Any

from regard.interchange.families.base import Config, Family, Take, activation, needed, require


def spec(config: Config) -> dict[str, Any]:
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    require({"rope_type": rope.get("rope_type", "default")}, "rope_type", ["default"])
    require(config, "attention_bias", [False])
    require(config, "mlp_bias", [False])
    heads = needed(config, "num_attention_heads")
    return {
        "kind": "language-model",
        "dim": needed(config, "hidden_size"),
        "heads": heads,
        "kv_heads": config.get("num_key_value_heads") or heads,
        "head_dim": config.get("head_dim") or config["hidden_size"] // heads,
        "ffn_dim": needed(config, "intermediate_size"),
        "layers": needed(config, "num_hidden_layers"),
        "dropout": 0.0,
        "position": {
            "kind": "rotary",
            "pairs": "halves",
            "base": rope.get("rope_theta") or config.get("rope_theta", 10_000.0),
        },
        "norm": {"kind": "rms", "eps": config.get("rms_norm_eps", 1e-6)},
        "feed_forward": {
            "kind": "gated",
            "activation": activation({"hidden_act": "silu", **config}, "hidden_act"),
        },
        "bias": False,
        "scale_embedding": False,
        "tie_embeddings": config.get("tie_word_embeddings", False),
        "max_length": needed(config, "max_position_embeddings"),
    }


def names(config: Config) -> dict[str, Take]:
    takes = {
        "decoder.embedding.tokens.weight": Take("model.embed_tokens.weight"),
        "decoder.norm.gain": Take("model.norm.weight"),
    }
    if not config.get("tie_word_embeddings", False):
        takes["decoder.output.weight"] = Take("lm_head.weight")
    parts = {
        "attention_residual.norm.gain": "input_layernorm",
        "feed_forward_residual.norm.gain": "post_attention_layernorm",
        "attention.w_q.weight": "self_attn.q_proj",
        "attention.w_k.weight": "self_attn.k_proj",
        "attention.w_v.weight": "self_attn.v_proj",
        "attention.w_o.weight": "self_attn.o_proj",
        "feed_forward.gate_proj.weight": "mlp.gate_proj",
        "feed_forward.up_proj.weight": "mlp.up_proj",
        "feed_forward.down_proj.weight": "mlp.down_proj",
    }
    for layer in range(config["num_hidden_layers"]):
        for ours, theirs in parts.items():
            takes[f"decoder.blocks.{layer}.{ours}"] = Take(f"model.layers.{layer}.{theirs}.weight")
    return takes


FAMILY = Family(
    types=("llama",),
    task="language-model",
    spec=spec,
    names=names,
    left_out=(r".*rotary_emb\.inv_freq", r"lm_head\.weight"),
    begins_with_start=True,
)
