"""Export to a Hugging Face folder: config.json, model.safetensors, tokenizer.json.

An encoder-decoder with sinusoidal positions becomes a Marian (post-norm) or a Pegasus (pre-norm);
a language model with sinusoidal or learned positions a GPT-2; one with rotary positions, RMS norms
and gated feed-forward networks a Llama; a masked language model or a classifier of the first token
with sinusoidal or learned positions a BERT (post-norm) or a Megatron-BERT (pre-norm).

The tokenizer adds the special tokens of the model's inputs: the end token of a source, start and
end of a text to classify or fill. Spaces after the tag of a target language are ignored.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from regard.atomic import write_all_atomic
from regard.data.tokenizers.tokenizer import MASK, Tokenizer
from regard.interchange.config import read_config
from regard.interchange.exports.arrangement import deinterleave
from regard.interchange.exports.base import (
    activation_name,
    as_json,
    built,
    check_settings,
    end_ids,
    label_details,
    refuse,
    refuse_sparse,
    refuse_uneven,
    suppressed_phrases,
)
from regard.interchange.exports.bert import export_classifier, export_masked_lm
from regard.interchange.exports.tokenizer import tokenizer_json
from regard.interchange.families import llama, marian
from regard.interchange.families.base import Family
from regard.models import classifier, encoder_decoder, language_model, masked_lm
from regard.positions import rotary
from regard.positions.sinusoidal import sinusoids
from regard.run_folder import Run

Weights = dict[str, Tensor]

MASKS = (MASK, "[MASK]")


def export(run: Run, folder: Path) -> None:
    """Write the Hugging Face folder of a run."""
    spec = built(run)[0]
    refuse_uneven(spec, "Hugging Face")
    refuse_sparse(spec, "Hugging Face")
    tokenizer = Tokenizer.from_json(run.tokenizer)
    (bos,) = run.details.get("bos") or [tokenizer.start]
    tokens: dict[str, Any] = {
        "vocab_size": run.vocabulary,
        "pad_token_id": run.details.get("pad", tokenizer.pad),
        "eos_token_id": end_ids(run, tokenizer),
        "bos_token_id": bos,
    }
    if isinstance(spec, encoder_decoder.Spec):
        config, weights = _marian(spec, run.weights)
        tokens["decoder_start_token_id"] = run.details.get("start", tokenizer.start)
        tokens["forced_eos_token_id"] = None
    elif isinstance(spec, language_model.Spec) and spec.position.kind() == "rotary":
        config, weights = _llama(spec, run.weights)
    elif isinstance(spec, language_model.Spec):
        config, weights = _gpt2(spec, run.weights)
    elif isinstance(spec, masked_lm.Spec):
        config, weights = export_masked_lm(spec, run.weights)
    elif isinstance(spec, classifier.Spec):
        labels, several, temperature = label_details(run)
        config, weights = export_classifier(spec, run.weights, labels, several, temperature)
    else:
        raise refuse(f"a {spec.kind()}", "Hugging Face's Marian, Pegasus, GPT-2, Llama and BERT")
    folder.mkdir(parents=True, exist_ok=True)
    write_all_atomic(
        folder,
        {
            "config.json": as_json(config | tokens),
            "generation_config.json": as_json(
                {
                    **tokens,
                    "bad_words_ids": suppressed_phrases(run),
                    "num_beams": 1,
                    "do_sample": False,
                }
            ),
            "tokenizer.json": tokenizer_json(run),
            "tokenizer_config.json": as_json(_tokenizer_config(tokenizer, run, spec.max_length)),
            "model.safetensors": save(
                {name: tensor.contiguous() for name, tensor in weights.items()}, {"format": "pt"}
            ),
        },
    )


def _tokenizer_config(tokenizer: Tokenizer, run: Run, length: int) -> dict[str, Any]:
    pieces = tokenizer.vocabulary()
    mask = next((piece for piece in pieces if piece in MASKS), None)
    bos = run.details.get("bos")
    own = {"mask_token": mask, "cls_token": pieces[tokenizer.start]} if mask else {}
    return {
        **own,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],  # Regard has no token types
        "model_max_length": length,
        "pad_token": pieces[run.details.get("pad", tokenizer.pad)],
        "eos_token": pieces[run.details.get("end", tokenizer.end)],
        "bos_token": pieces[bos[0] if bos else tokenizer.start],
        "unk_token": pieces[tokenizer.unknown],
    }


def _theirs(family: Family, config: Mapping[str, Any], ours: Mapping[str, Tensor]) -> Weights:
    """Rename weights to Hugging Face's names, where nothing but the name differs."""
    names = family.names(read_config(family.config, config, "config.json"))
    return {take.name: ours[name] for name, take in names.items() if name in ours}


def _marian(
    spec: encoder_decoder.Spec, weights: Mapping[str, Tensor]
) -> tuple[dict[str, Any], Weights]:
    check_settings(
        spec,
        "Marian and Pegasus",
        position__kind="sinusoidal",
        norm__kind="layer",
        feed_forward__kind="dense",
        tie_embeddings="all",
        embedding_norm=False,
        bias=True,
        head_dim=(None, spec.dim // spec.heads),
        kv_heads=(None, spec.heads),
    )
    check_settings(
        spec, "Marian and Pegasus", norm__eps=1e-5, position__base=10_000.0, feed_forward__bias=True
    )
    position: Any = spec.position
    network: Any = spec.feed_forward
    kind = "pegasus" if spec.norm_first else "marian"
    layers = spec.decoder_layers or spec.layers
    config = {
        "model_type": kind,
        "architectures": [
            "PegasusForConditionalGeneration" if spec.norm_first else "MarianMTModel"
        ],
        "d_model": spec.dim,
        "encoder_layers": spec.layers,
        "decoder_layers": layers,
        "encoder_attention_heads": spec.heads,
        "decoder_attention_heads": spec.heads,
        "encoder_ffn_dim": spec.ffn_dim,
        "decoder_ffn_dim": spec.ffn_dim,
        "activation_function": activation_name(network.activation),
        "scale_embedding": spec.scale_embedding,
        "max_position_embeddings": spec.max_length,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "dropout": spec.dropout,
    }
    ours = dict(weights)
    if position.layout == "interleaved":
        ours = deinterleave(ours, spec.dim)
    theirs = _theirs(marian.FAMILY, config, ours)
    bias = theirs.get("final_logits_bias", torch.zeros(len(theirs["model.shared.weight"])))
    theirs["final_logits_bias"] = bias[None]
    table = sinusoids(torch.arange(spec.max_length), spec.dim, position.base, "halves")
    theirs["model.encoder.embed_positions.weight"] = table
    theirs["model.decoder.embed_positions.weight"] = table.clone()
    return config, theirs


def _gpt2(
    spec: language_model.Spec, weights: Mapping[str, Tensor]
) -> tuple[dict[str, Any], Weights]:
    check_settings(
        spec,
        "GPT-2",
        position__kind=("sinusoidal", "learned"),
        norm__kind="layer",
        norm_first=True,
        feed_forward__kind="dense",
        output_bias=False,
        embedding_norm=False,
        bias=True,
        head_dim=(None, spec.dim // spec.heads),
        kv_heads=(None, spec.heads),
    )
    check_settings(spec, "GPT-2", feed_forward__bias=True)
    position: Any = spec.position
    norm: Any = spec.norm
    network: Any = spec.feed_forward
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": spec.dim,
        "n_head": spec.heads,
        "n_inner": spec.ffn_dim,
        "n_layer": spec.layers,
        "n_positions": spec.max_length,
        "activation_function": activation_name(network.activation),
        "layer_norm_epsilon": norm.eps,
        "tie_word_embeddings": False,
    }
    tokens = weights["decoder.embedding.tokens.weight"]
    scale = spec.dim**0.5 if spec.scale_embedding else 1.0
    theirs = {
        "wte.weight": tokens * scale,
        "wpe.weight": weights["decoder.embedding.position.table"]
        if position.kind() == "learned"
        else sinusoids(torch.arange(spec.max_length), spec.dim, position.base, position.layout),
        "ln_f.weight": weights["decoder.norm.gain"],
        "ln_f.bias": weights["decoder.norm.bias"],
    }
    for layer in range(spec.layers):
        own, name = f"decoder.blocks.{layer}", f"h.{layer}"
        for around, norm_name in (
            ("attention_residual", "ln_1"),
            ("feed_forward_residual", "ln_2"),
        ):
            theirs[f"{name}.{norm_name}.weight"] = weights[f"{own}.{around}.norm.gain"]
            theirs[f"{name}.{norm_name}.bias"] = weights[f"{own}.{around}.norm.bias"]
        qkv = [weights[f"{own}.attention.w_{letter}.weight"] for letter in "qkv"]
        theirs[f"{name}.attn.c_attn.weight"] = torch.cat(qkv).T
        biases = [weights[f"{own}.attention.w_{letter}.bias"] for letter in "qkv"]
        theirs[f"{name}.attn.c_attn.bias"] = torch.cat(biases)
        for ours, part in (
            ("attention.w_o", "attn.c_proj"),
            ("feed_forward.up_proj", "mlp.c_fc"),
            ("feed_forward.down_proj", "mlp.c_proj"),
        ):
            theirs[f"{name}.{part}.weight"] = weights[f"{own}.{ours}.weight"].T
            theirs[f"{name}.{part}.bias"] = weights[f"{own}.{ours}.bias"]
    theirs = {f"transformer.{name}": tensor for name, tensor in theirs.items()}
    theirs["lm_head.weight"] = weights.get("decoder.output.weight", tokens).clone()
    return config, theirs


def _llama(
    spec: language_model.Spec, weights: Mapping[str, Tensor]
) -> tuple[dict[str, Any], Weights]:
    check_settings(
        spec,
        "Llama",
        norm__kind="rms",
        norm_first=True,
        feed_forward__kind="gated",
        scale_embedding=False,
        embedding_norm=False,
        output_bias=False,
    )
    check_settings(spec, "Llama", position__pairs="halves")
    if spec.dim % spec.heads:
        raise refuse(f"model.dim {spec.dim} with {spec.heads} heads", "Llama")
    position: Any = spec.position
    norm: Any = spec.norm
    network: Any = spec.feed_forward
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": spec.dim,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads or spec.heads,
        "head_dim": spec.sizes.head_dim,
        "intermediate_size": spec.ffn_dim,
        "num_hidden_layers": spec.layers,
        "rms_norm_eps": norm.eps,
        **_rope(position),
        "attention_bias": spec.bias,
        "mlp_bias": network.bias,
        "hidden_act": activation_name(network.activation),
        "max_position_embeddings": spec.max_length,
        "tie_word_embeddings": spec.tie_embeddings,
    }
    return config, _theirs(llama.FAMILY, config, weights)


def _rope(position: rotary.Spec) -> dict[str, Any]:
    """Rotary positions, in the spelling that all versions of transformers read."""
    scaling = position.scaling
    if scaling is None:
        return {"rope_theta": position.base}
    settings: dict[str, Any] = {"rope_type": "linear", "factor": scaling.factor}
    if scaling.context is not None:
        settings |= {
            "rope_type": "llama3",
            "low_freq_factor": scaling.low,
            "high_freq_factor": scaling.high,
            "original_max_position_embeddings": scaling.context,
        }
    return {"rope_theta": position.base, "rope_scaling": settings}
