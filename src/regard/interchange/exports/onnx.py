"""Export to ONNX: graphs with the names that Hugging Face's tools expect.

    encoder_model.onnx   input_ids, attention_mask (B, S)                   → last_hidden_state
    decoder_model.onnx   input_ids (B, T), encoder_hidden_states (B, S, D),
                         encoder_attention_mask (B, S)                      → logits (B, T, V)
    model.onnx           input_ids (B, T), of a language model              → logits (B, T, V)
    model.onnx           input_ids, attention_mask (B, T), of a masked      → logits (B, T, V)
                         language model or a classifier                     → logits (B, labels)

Logits of a classifier are calibrated, and config.json has its labels. The decoder of an
encoder-decoder also returns its KV cache: present.L.decoder.key and .value (B, H, T, K) of layer L,
and those of the source, present.L.encoder.key and .value. With them, decoder_with_past_model.onnx
takes one token more:

    input_ids (B, 1), encoder_attention_mask, past_key_values.L.decoder.key …
                                            → logits (B, 1, V), present.L.decoder.key and .value

A language model takes all tokens so far.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils._pytree import tree_map

from regard.atomic import write_all_atomic
from regard.attention.kv_cache import KVCache
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import ConfigError
from regard.interchange.exports.base import (
    as_json,
    built,
    end_ids,
    label_config,
    label_details,
    refuse,
    refuse_sparse,
    suppressed_phrases,
)
from regard.interchange.exports.tokenizer import tokenizer_json
from regard.layers.feedforward import moe
from regard.missing_modules import install_command
from regard.models import classifier, encoder_decoder, language_model, masked_lm
from regard.models.decoder import DecoderState
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.language_model import LanguageModel
from regard.run_folder import Run

MAX_BYTES = 2**31  # of one ONNX file
CACHES = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")  # of a layer

Caches = tuple[Tensor, Tensor, Tensor, Tensor]  # keys and values: of a layer, of its source


class _Encoder(nn.Module):
    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.encoder = model.encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states: Tensor = self.encoder(input_ids, attention_mask.bool())
        return states


class _Decoder(nn.Module):
    """The decoder before the first token: returns the KV cache of each layer and of its source."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, encoder_hidden_states: Tensor, encoder_attention_mask: Tensor
    ) -> tuple[Tensor, list[Caches]]:
        decoder: Any = self.model.decoder
        state = decoder.start_from(encoder_hidden_states, encoder_attention_mask.bool())
        logits, state = self.model.extend(input_ids, state)
        return logits, [
            (own.keys, own.values, source.keys, source.values)
            for own, source in zip(state.past, state.source, strict=True)
        ]


class _DecoderWithPast(nn.Module):
    """The decoder after some tokens: returns the KV cache of each layer, one token longer."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, encoder_attention_mask: Tensor, caches: list[Caches]
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        past = tuple(KVCache(keys, values) for keys, values, _, _ in caches)
        source = tuple(KVCache(keys, values) for _, _, keys, values in caches)
        state = DecoderState(past[0].end, past, source, encoder_attention_mask.bool())
        logits, state = self.model.extend(input_ids, state)
        return logits, [(cache.keys, cache.values) for cache in state.past]


class _WithMask(nn.Module):
    """A masked language model or a classifier, whose logits are divided by the temperature."""

    def __init__(self, model: nn.Module, temperature: float = 1.0) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids, attention_mask.bool())
        return logits / self.temperature if self.temperature != 1 else logits


class _LanguageModel(nn.Module):
    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids)
        return logits


def export(run: Run, folder: Path) -> None:
    """Write the ONNX graphs of a run to a folder."""
    spec, model = built(run)
    refuse_sparse(spec, "ONNX as Regard exports it")
    if isinstance(getattr(spec, "feed_forward", None), moe.Spec):
        raise refuse("a feed-forward network of kind moe", "ONNX as Regard exports it")
    if sum(tensor.nbytes for tensor in run.weights.values()) >= MAX_BYTES:
        raise refuse("a model of 2 GB or more", "a single ONNX file")
    tokenizer = Tokenizer.from_json(run.tokenizer)
    ids = torch.tensor([[tokenizer.end] * 5, [tokenizer.start] * 5])
    words, token_mask = torch.full((2, 7), tokenizer.end), torch.ones(2, 7, dtype=torch.long)
    if isinstance(spec, encoder_decoder.Spec):
        files = _encoder_decoder(model, ids, words, token_mask)
    elif isinstance(spec, language_model.Spec):
        files = {"model.onnx": _graph(_LanguageModel(model), (ids,), ["logits"])}
    elif isinstance(spec, masked_lm.Spec):
        files = {"model.onnx": _graph(_WithMask(model), (words, token_mask), ["logits"])}
    elif isinstance(spec, classifier.Spec) and not spec.needs_trees:
        labels, several, temperature = label_details(run)
        graph = _graph(_WithMask(model, temperature), (words, token_mask), ["logits"])
        files = {"model.onnx": graph, "config.json": as_json(label_config(labels, several))}
    else:
        raise refuse(f"a {spec.kind()}", "ONNX as Regard exports it")
    start = run.details.get("start", tokenizer.start)
    settings = {
        "bos_token_id": tokenizer.start,
        "eos_token_id": end_ids(run, tokenizer),
        "bad_words_ids": suppressed_phrases(run),
        "pad_token_id": run.details.get("pad", tokenizer.pad),
        "decoder_start_token_id": start,
        "max_length": spec.max_length,
    }
    folder.mkdir(parents=True, exist_ok=True)
    files |= {"tokenizer.json": tokenizer_json(run), "generation_config.json": as_json(settings)}
    write_all_atomic(folder, files)


def _encoder_decoder(
    model: EncoderDecoder, ids: Tensor, source: Tensor, token_mask: Tensor
) -> dict[str, bytes]:
    """Return the graphs of an encoder, of its decoder, and of the decoder with a KV cache."""
    encoder, decoder, with_past = _Encoder(model), _Decoder(model), _DecoderWithPast(model)
    with torch.no_grad():
        states = encoder(source, token_mask)
        caches = decoder(ids, states, token_mask)[1]
    names = [f"{layer}.{cache}" for layer in range(len(caches)) for cache in CACHES]
    both = [f"present.{name}" for name in names]
    present = [name for name in both if ".decoder." in name]
    past = [f"past_key_values.{name}" for name in names]
    token = ids[:, :1]
    return {
        "encoder_model.onnx": _graph(encoder, (source, token_mask), ["last_hidden_state"]),
        "decoder_model.onnx": _graph(decoder, (ids, states, token_mask), ["logits", *both]),
        "decoder_with_past_model.onnx": _graph(
            with_past,
            (token, token_mask, caches),
            ["logits", *present],
            ["input_ids", "encoder_attention_mask", *past],
        ),
    }


def _graph(
    module: nn.Module, inputs: tuple[Any, ...], outputs: list[str], names: list[str] | None = None
) -> bytes:
    """Trace a module to ONNX, with dynamic batch size and lengths.

    Args:
        module: The module.
        inputs: Its arguments: tensors, or lists of the caches of each layer.
        outputs: Names of the outputs.
        names: Names of the inputs (default: those of the arguments).
    """
    shapes = tree_map(_dynamic, inputs)
    if find_spec("onnxscript") is None:
        raise ConfigError(
            "ONNX is written with the package onnxscript, which is not installed: "
            f"{install_command('onnxscript')}."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # meant for the developers of torch
        program: Any = torch.onnx.export(
            module.eval(),
            inputs,
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=names,
            output_names=outputs,
            verbose=False,
        )
    data: bytes = program.model_proto.SerializeToString()
    return data


def _dynamic(tensor: Tensor) -> dict[int, Any]:
    """Return the dynamic axes of (B, T), (B, S, D) or keys (B, H, T, K); one token is no axis."""
    length = 2 if tensor.dim() == 4 else 1
    axes = (0,) if tensor.size(length) == 1 else (0, length)
    return dict.fromkeys(axes, Dim.DYNAMIC)
