"""Encoders with a head as BERT (post-norm) or Megatron-BERT (pre-norm) of Hugging Face.

Both have layers in their heads that Regard's models lack; their weights are chosen so that the
layers change nothing but rounding:

    classifier   W tanh(P x) + b      P = εI and W / ε: tanh is linear near 0
    masked-lm    E norm(g(P x + c))   P = I and a c so large that the activation g is linear; the
                                      norm removes c again, and takes the place of the last one
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.interchange.exports.base import (
    activation_name,
    check_settings,
    label_config,
    refuse,
)
from regard.interchange.families.base import renamed
from regard.models import classifier, masked_lm
from regard.models.transformer import TransformerSpec
from regard.positions.sinusoidal import sinusoids

Weights = dict[str, Tensor]

NEAR_ZERO = 2.0**-16  # ε; a power of two scales weights without rounding
# Activations that are the identity for inputs of 20 and more, to 32 bits.
LINEAR_ABOVE_20 = ("relu", "gelu", "gelu-tanh", "silu")
LINEAR = {
    "attention.w_q": "attention.self.query",
    "attention.w_k": "attention.self.key",
    "attention.w_v": "attention.self.value",
    "attention.w_o": "attention.output.dense",
    "feed_forward.up_proj": "intermediate.dense",
    "feed_forward.down_proj": "output.dense",
}
NORMS = {  # by norm_first
    False: {
        "attention_residual.norm": "attention.output.LayerNorm",
        "feed_forward_residual.norm": "output.LayerNorm",
    },
    True: {"attention_residual.norm": "attention.ln", "feed_forward_residual.norm": "ln"},
}


def export_masked_lm(
    spec: masked_lm.Spec, weights: Mapping[str, Tensor]
) -> tuple[dict[str, Any], Weights]:
    """Return config and weights of a (Megatron-)BERT for masked language modeling."""
    _check(spec)
    check_settings(spec, _name(spec), output_bias=True)
    network: Any = spec.feed_forward
    ours = dict(weights)
    if spec.transform == "none":
        ours |= _neutral_transform(spec, ours)
    else:
        check_settings(spec, _name(spec), transform=network.activation.kind())
    theirs = _encoder(spec, ours)
    for name, take in renamed(
        {"transform.dense": "cls.predictions.transform.dense"},
        {"transform.norm": "cls.predictions.transform.LayerNorm"},
    ).items():
        theirs[take.name] = ours[name]
    tied = spec.tie_embeddings and not spec.scale_embedding
    if not tied:
        output = ours.get("output.weight", ours["encoder.embedding.tokens.weight"])
        theirs["cls.predictions.decoder.weight"] = output.clone()
        theirs["cls.predictions.decoder.bias"] = ours["output.bias"]
    theirs["cls.predictions.bias"] = ours["output.bias"].clone()  # present even if unused
    return _config(spec, "MaskedLM") | {"tie_word_embeddings": tied}, theirs


def export_classifier(
    spec: classifier.Spec,
    weights: Mapping[str, Tensor],
    labels: Sequence[str],
    several: bool,
    temperature: float,
) -> tuple[dict[str, Any], Weights]:
    """Return config and weights of a (Megatron-)BERT for sequence classification.

    `several`: a text may have several labels. Its logits are calibrated by the temperature.
    """
    _check(spec)
    check_settings(spec, f"{_name(spec)} (ONNX has one)", pooling__kind="first")
    theirs = _encoder(spec, weights)
    theirs["bert.pooler.dense.weight"] = NEAR_ZERO * torch.eye(spec.dim)
    theirs["bert.pooler.dense.bias"] = torch.zeros(spec.dim)
    theirs["classifier.weight"] = weights["output.weight"] / NEAR_ZERO / temperature
    theirs["classifier.bias"] = weights["output.bias"] / temperature
    return _config(spec, "SequenceClassification") | label_config(labels, several), theirs


def _name(spec: TransformerSpec) -> str:
    return "Megatron-BERT" if spec.norm_first else "BERT"


def _check(spec: TransformerSpec) -> None:
    where = _name(spec)
    check_settings(
        spec,
        where,
        position__kind=("learned", "sinusoidal"),
        norm__kind="layer",
        feed_forward__kind="dense",
        embedding_norm=not spec.norm_first,
        bias=True,
        head_dim=(None, spec.dim // spec.heads),
        kv_heads=(None, spec.heads),
    )
    check_settings(spec, where, feed_forward__bias=True)


def _config(spec: TransformerSpec, head: str) -> dict[str, Any]:
    network: Any = spec.feed_forward
    norm: Any = spec.norm
    return {
        "model_type": "megatron-bert" if spec.norm_first else "bert",
        "architectures": [f"{'MegatronBert' if spec.norm_first else 'Bert'}For{head}"],
        "hidden_size": spec.dim,
        "num_attention_heads": spec.heads,
        "intermediate_size": spec.ffn_dim,
        "num_hidden_layers": spec.layers,
        "hidden_act": activation_name(network.activation),
        "hidden_dropout_prob": spec.dropout,
        "attention_probs_dropout_prob": 0.0,
        "layer_norm_eps": norm.eps,
        "max_position_embeddings": spec.max_length,
        "type_vocab_size": 2,
    }


def _encoder(spec: TransformerSpec, ours: Mapping[str, Tensor]) -> Weights:
    """Return the weights of the encoder without a head, by Hugging Face's names."""
    linear: dict[str, str] = {}
    norms: dict[str, str] = {}
    for layer in range(spec.layers):
        own, their = f"blocks.{layer}", f"encoder.layer.{layer}"
        linear |= {f"{own}.{name}": f"{their}.{theirs}" for name, theirs in LINEAR.items()}
        norms |= {
            f"{own}.{name}": f"{their}.{theirs}" for name, theirs in NORMS[spec.norm_first].items()
        }
    if spec.norm_first:
        norms["norm"] = "encoder.ln"
    else:
        norms["embedding.norm"] = "embeddings.LayerNorm"
    takes = renamed(linear, norms)
    theirs = {f"bert.{take.name}": ours[f"encoder.{name}"] for name, take in takes.items()}
    tokens = ours["encoder.embedding.tokens.weight"]
    scale = spec.dim**0.5 if spec.scale_embedding else 1.0
    theirs["bert.embeddings.word_embeddings.weight"] = tokens * scale
    theirs["bert.embeddings.position_embeddings.weight"] = _positions(spec, ours)
    theirs["bert.embeddings.token_type_embeddings.weight"] = torch.zeros(2, spec.dim)
    return theirs


def _positions(spec: TransformerSpec, ours: Mapping[str, Tensor]) -> Tensor:
    position: Any = spec.position
    if position.kind() == "learned":
        return ours["encoder.embedding.position.table"]
    return sinusoids(torch.arange(spec.max_length), spec.dim, position.base, position.layout)


def _neutral_transform(spec: masked_lm.Spec, ours: Mapping[str, Tensor]) -> Weights:
    """Return the weights of a transform that changes nothing, and of the norm that it replaces."""
    network: Any = spec.feed_forward
    if (kind := network.activation.kind()) not in LINEAR_ABOVE_20:
        raise refuse(f"model.transform: none, with the activation {kind},", _name(spec))
    last = "norm" if spec.norm_first else f"blocks.{spec.layers - 1}.feed_forward_residual.norm"
    ones, zeros = torch.ones(spec.dim), torch.zeros(spec.dim)
    return {
        "transform.dense.weight": torch.eye(spec.dim),
        "transform.dense.bias": torch.full((spec.dim,), 20 + spec.dim**0.5),  # |norm(x)| ≤ √D
        "transform.norm.gain": ours[f"encoder.{last}.gain"],
        "transform.norm.bias": ours[f"encoder.{last}.bias"],
        f"encoder.{last}.gain": ones,
        f"encoder.{last}.bias": zeros,
    }
