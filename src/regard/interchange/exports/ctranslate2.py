"""Export to CTranslate2 (Klein et al. 2020): model.bin, config.json and the vocabulary.

model.bin is a list of named arrays, little-endian. A string is its length with the terminating zero
(16 bits), its bytes and the zero.

    version (32 bits) · model type (string) · revision (32) · number of arrays (32), then for each:
    name · number of dimensions (8) · dimensions (32 each) · type (8) · bytes (32) · values
    number of aliases (32), then for each: alias · name
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.atomic import write_all_atomic
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interchange.exports.base import as_json, built, refuse, refuse_sparse, refuse_uneven
from regard.layers.activations.base import ActivationSpec
from regard.models import encoder_decoder, language_model
from regard.models.transformer import TransformerSpec
from regard.positions.rotary import Rotary
from regard.run_folder import Run

VERSION = 6
SEQUENCES, DECODER = ("TransformerSpec", 7), ("TransformerDecoderSpec", 8)  # kind and revision
TYPES = [np.dtype(name) for name in ("float32", "int8", "int16", "int32")]

NEVER = -1e9  # logit of a token that is never generated

Value = NDArray[Any] | np.generic
Arrays = dict[str, Value]


def export(run: Run, folder: Path) -> None:
    """Write the CTranslate2 model of a run to a folder."""
    spec, model = built(run)
    refuse_uneven(spec, "CTranslate2")
    refuse_sparse(spec, "CTranslate2")
    tokenizer = Tokenizer.from_json(run.tokenizer)
    pieces = _distinct(tokenizer.vocabulary(), run.vocabulary)
    config: dict[str, Any] = {
        "unk_token": pieces[tokenizer.unknown],
        "bos_token": pieces[tokenizer.start],
        "eos_token": pieces[run.details.get("end", tokenizer.end)],
    }
    if not isinstance(spec, (encoder_decoder.Spec, language_model.Spec)):
        raise refuse(f"a {spec.kind()}", "CTranslate2")
    config["layer_norm_epsilon"] = getattr(spec.norm, "eps", None)
    config["multi_query_attention"] = spec.kv_heads not in (None, spec.heads)
    if run.details.get("other_ends"):
        raise refuse("a model with several end tokens", "CTranslate2")
    decoder = dict(_decoder(spec, model.decoder))
    if suppressed := run.details.get("suppressed_tokens"):
        name = "decoder/projection/bias"
        bias = np.array(decoder.get(name, np.zeros(run.vocabulary)), dtype=np.float32)
        bias[list(suppressed)] = NEVER
        decoder[name] = bias
    if isinstance(spec, encoder_decoder.Spec):
        config["decoder_start_token"] = pieces[run.details.get("start", tokenizer.start)]
        config |= {"add_source_bos": False, "add_source_eos": True}
        arrays = {**dict(_encoder(spec, model.encoder)), **decoder}
        kind, vocabulary = SEQUENCES, "shared_vocabulary.json"
    else:
        arrays, kind, vocabulary = decoder, DECODER, "vocabulary.json"
    folder.mkdir(parents=True, exist_ok=True)
    files = {"model.bin": _binary(kind, arrays), vocabulary: as_json(pieces)}
    write_all_atomic(folder, {**files, "config.json": as_json(config)})


def _distinct(pieces: list[str], count: int) -> list[str]:
    """A distinct name for each token id, also for those without a piece."""
    named = [piece or f"<unused-{number}>" for number, piece in enumerate(pieces)]
    return named + [f"<unused-{number}>" for number in range(len(named), count)]


def _encoder(spec: TransformerSpec, encoder: Any) -> Iterator[tuple[str, Value]]:
    yield from _common("encoder", spec, encoder, "embeddings_0")
    yield "encoder/embeddings_merge", np.int8(0)
    yield "encoder/multi_query_attention", np.int8(0)


def _decoder(spec: TransformerSpec, decoder: Any) -> Iterator[tuple[str, Value]]:
    yield from _common("decoder", spec, decoder, "embeddings")
    yield from _linear("decoder/projection", decoder.output)
    yield "decoder/alignment_layer", np.int16(-1)
    yield "decoder/alignment_heads", np.int16(1)
    for flag in ("alibi", "alibi_use_positive_positions", "scale_alibi"):
        yield f"decoder/{flag}", np.int8(0)
    yield "decoder/start_from_zero_embedding", np.int8(0)


def _common(
    scope: str, spec: TransformerSpec, stack: Any, embeddings: str
) -> Iterator[tuple[str, Value]]:
    embedding, network = stack.embedding, spec.feed_forward
    activation: ActivationSpec | None = getattr(network, "activation", None)
    if activation is None:
        raise refuse(f"a feed-forward network of kind {network.kind()}", "CTranslate2")
    if activation.ctranslate2_code is None:
        raise refuse(f"activation {activation.kind()}", "CTranslate2")
    yield f"{scope}/num_heads", np.int16(spec.heads)
    yield f"{scope}/pre_norm", np.int8(spec.norm_first)
    yield f"{scope}/activation", np.int8(activation.ctranslate2_code)
    yield f"{scope}/scale_embeddings", np.float32(embedding.scale)
    yield f"{scope}/{embeddings}/weight", _array(embedding.tokens.weight)
    if spec.position.kind() in ("sinusoidal", "learned"):
        encodings = embedding.position(torch.zeros(1, spec.max_length, spec.dim), 0)[0]
        yield f"{scope}/position_encodings/encodings", _array(encodings)
    elif spec.position.kind() != "rotary":
        raise refuse(f"position {spec.position.kind()}", "CTranslate2")
    if spec.embedding_norm:
        yield from _norm(f"{scope}/layernorm_embedding", embedding.norm)
    if spec.norm_first:
        yield from _norm(f"{scope}/layer_norm", stack.norm)
    for number, block in enumerate(stack.blocks):
        yield from _layer(f"{scope}/layer_{number}", spec, block)


def _layer(scope: str, spec: TransformerSpec, block: Any) -> Iterator[tuple[str, Value]]:
    own, network, cross = block.attention, block.feed_forward, getattr(block, "cross", None)
    yield from _norm(f"{scope}/self_attention/layer_norm", block.attention_residual.norm)
    yield from _linear(f"{scope}/self_attention/linear_0", own.w_q, own.w_k, own.w_v)
    yield from _linear(f"{scope}/self_attention/linear_1", own.w_o)
    yield from _sizes(f"{scope}/self_attention", spec)
    if isinstance(own.position, Rotary):
        if own.position.scaling is not None:
            raise refuse("position rotary with scaling", "CTranslate2")
        yield f"{scope}/self_attention/rotary_dim", np.int32(0)  # 0: all components are rotated
        yield f"{scope}/self_attention/rotary_base", np.float32(own.position.base)
        adjacent = own.position.pairs == "adjacent"
        yield f"{scope}/self_attention/rotary_interleave", np.int8(adjacent)
    if cross is not None:
        yield from _norm(f"{scope}/attention/layer_norm", block.cross_residual.norm)
        yield from _linear(f"{scope}/attention/linear_0", cross.w_q)
        yield from _linear(f"{scope}/attention/linear_1", cross.w_k, cross.w_v)
        yield from _linear(f"{scope}/attention/linear_2", cross.w_o)
        yield from _sizes(f"{scope}/attention", spec)
    yield from _norm(f"{scope}/ffn/layer_norm", block.feed_forward_residual.norm)
    if hasattr(network, "gate_proj"):
        yield from _linear(f"{scope}/ffn/linear_0", network.gate_proj)
        yield from _linear(f"{scope}/ffn/linear_0_noact", network.up_proj)
    else:
        yield from _linear(f"{scope}/ffn/linear_0", network.up_proj)
    yield from _linear(f"{scope}/ffn/linear_1", network.down_proj)


def _sizes(scope: str, spec: TransformerSpec) -> Iterator[tuple[str, Value]]:
    """Sizes that do not follow from the shapes."""
    if spec.kv_heads not in (None, spec.heads):
        yield f"{scope}/num_heads_kv", np.int32(spec.kv_heads)
    if spec.sizes.head_dim * spec.heads != spec.dim:
        yield f"{scope}/head_dim", np.int32(spec.sizes.head_dim)


def _norm(scope: str, norm: nn.Module) -> Iterator[tuple[str, Value]]:
    if isinstance(norm, nn.Identity):
        raise refuse("a layer without norms", "CTranslate2")
    yield f"{scope}/gamma", _array(norm.gain)
    if isinstance(getattr(norm, "bias", None), Tensor):
        yield f"{scope}/beta", _array(norm.bias)


def _linear(scope: str, *maps: nn.Linear) -> Iterator[tuple[str, Value]]:
    """Several linear layers of one input, concatenated."""
    yield f"{scope}/weight", _array(torch.cat([linear.weight for linear in maps]))
    if all(linear.bias is not None for linear in maps):
        yield f"{scope}/bias", _array(torch.cat([linear.bias for linear in maps]))


def _array(tensor: Any) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().float().contiguous().numpy()
    return array


def _binary(kind: tuple[str, int], arrays: Mapping[str, Value]) -> bytes:
    once, again = _aliases(arrays)
    parts = [struct.pack("<I", VERSION), _string(kind[0]), struct.pack("<I", kind[1])]
    parts.append(struct.pack("<I", len(once)))
    for name, array in sorted(once.items()):
        parts += [_string(name), struct.pack("<B", array.ndim)]
        parts.append(struct.pack(f"<{array.ndim}I", *array.shape))
        parts.append(struct.pack("<BI", TYPES.index(array.dtype), array.nbytes))
        parts.append(array.tobytes())
    parts.append(struct.pack("<I", len(again)))
    parts += [_string(other) + _string(name) for other, name in again.items()]
    return b"".join(parts)


def _aliases(arrays: Mapping[str, Value]) -> tuple[Arrays, dict[str, str]]:
    """Each matrix once, and the other names of shared matrices."""
    once: Arrays = {}
    again: dict[str, str] = {}
    seen: dict[bytes, str] = {}
    for name, array in arrays.items():
        content = array.tobytes() if name.endswith(("weight", "encodings")) else name.encode()
        if content in seen:
            again[name] = seen[content]
        else:
            seen[content] = name
            once[name] = np.asarray(array)
    return once, again


def _string(text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("<H", len(data)) + data
