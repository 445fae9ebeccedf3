"""Read a model of llama2.c (Karpathy 2023): a Llama in one binary file, its tokenizer in another.

The checkpoint is a header and float32 tensors, one after the other. Version 0 starts with seven
integers (`Sizes`); the vocabulary size is negative if the output layer is not tied. Version 1
starts with "ak42" and the version, has a byte for tying after the sizes, and a header of 256 bytes.
The file holds data only, and its size must match exactly.

The tokenizer file: the length of the longest piece, then for each piece its score (float), its
length and its bytes. <unk>, <s> and </s> come first, then the 256 bytes; spaces are spaces.
"""

import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.tokenizers.tokenizer import BYTES, END, START, UNKNOWN, Tokenizer
from regard.errors import DataError
from regard.interchange import sentencepiece as spm
from regard.interchange.folder import is_pickle, pickle_error
from regard.interchange.tokenizers import tokenizer_of_pieces

MAGIC, HEADER = 0x616B3432, 256
FIRST = (UNKNOWN, START, END)
BETWEEN = 1  # <s>: before every text, so generating it ends a text; </s> is never generated
BASE = 10_000.0
MAX_TOKENIZER = 1 << 28  # bytes
LAYER_PREFIX = "model.layers.{}."


class Sizes(NamedTuple):
    """The sizes in the header of a checkpoint."""

    dim: int
    ffn_dim: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    context: int

    @property
    def possible(self) -> bool:
        """True if a model can have these sizes."""
        return (
            min(self) > 0
            and self.dim % (2 * self.heads) == 0  # rotary positions rotate pairs of components
            and self.heads % self.kv_heads == 0
        )


def is_checkpoint(path: Path) -> bool:
    """True for a .bin file, or a folder of .bin files without config.json."""
    if path.is_dir():
        return not (path / "config.json").exists() and any(path.glob("*.bin"))
    return path.is_file() and path.suffix == ".bin"


class Checkpoint:
    """A checkpoint with the interface of ModelFolder: `config` and `weights()` of a Llama."""

    def __init__(self, path: Path) -> None:
        self.file = _model_in(path) if path.is_dir() else path
        self.path = path
        if is_pickle(self.file):
            raise pickle_error(self.file, beside_safetensors=False)
        self.sizes, self._tied, self._version = _header(self.file)
        self._check_size()
        self.config: dict[str, Any] = {
            "model_type": "llama",
            "hidden_size": self.sizes.dim,
            "intermediate_size": self.sizes.ffn_dim,
            "num_hidden_layers": self.sizes.layers,
            "num_attention_heads": self.sizes.heads,
            "num_key_value_heads": self.sizes.kv_heads,
            "max_position_embeddings": self.sizes.context,
            "rms_norm_eps": 1e-5,
            "rope_theta": BASE,
            "tie_word_embeddings": self._tied,
            "bos_token_id": BETWEEN,
            "eos_token_id": BETWEEN,
        }

    def weights(self) -> dict[str, Tensor]:
        """All tensors by Hugging Face's names, with its order of rotary components."""
        offset = HEADER if self._version else 4 * len(self.sizes)
        numbers = np.memmap(self.file, dtype="<f4", mode="r", offset=offset)
        tensors, at = {}, 0
        for name, shape in self._layout(self.sizes.layers):
            values = np.array(numbers[at : at + prod(shape)], dtype=np.float32)
            at += values.size
            if not np.isfinite(values).all():
                raise DataError(
                    f"{self.file}: {name} has values that are not finite; fetch the file again."
                )
            tensors[name] = torch.from_numpy(values).view(shape)
        if not self._version:
            self._check_rotations(tensors.pop("cos"), tensors.pop("sin"))
        for name, tensor in tensors.items():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                tensors[name] = pairs_to_halves(tensor, self.sizes.dim // self.sizes.heads)
        return tensors

    def _check_rotations(self, cos: Tensor, sin: Tensor) -> None:
        """Refuse tables of rotations other than those that Regard computes."""
        head_dim = self.sizes.dim // self.sizes.heads
        steps = BASE ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        angles = torch.arange(self.sizes.context, dtype=torch.float64)[:, None] * steps
        difference = max((cos - angles.cos()).abs().max(), (sin - angles.sin()).abs().max())
        if difference > 1e-3:
            raise DataError(
                f"{self.file}: its rotary positions have other angles than llama2.c's "
                f"(base {BASE:,.0f}), which Regard does not support."
            )

    def tokenizer(self) -> Tokenizer:
        """Read the tokenizer file in the same folder."""
        folder = self.file.parent
        files = [file for file in sorted(folder.glob("tok*.bin")) if file != self.file]
        if len(files) != 1:
            present = f"{files[0].name} and {files[1].name}" if files else "none"
            raise DataError(
                f"{folder}: a model of llama2.c needs one tokenizer in its folder (tok*.bin, such "
                f"as tokenizer.bin or tok512.bin), and there is {present}."
            )
        pieces = _pieces(files[0])
        if len(pieces) != self.sizes.vocabulary:
            raise DataError(
                f"{files[0]}: has {len(pieces):,} pieces and the model {self.sizes.vocabulary:,}; "
                f"it is the tokenizer of another model."
            )
        model = spm.SentencePieces(pieces, is_bpe=True, trims=False)
        return tokenizer_of_pieces(model, files[0])

    def _check_size(self) -> None:
        """Compare the size of the file with the header, whose sizes may be any numbers."""
        header = HEADER if self._version else 4 * len(self.sizes)
        in_layers = self.sizes.layers * sum(map(prod, self._layer_shapes().values()))
        others = sum(prod(shape) for _, shape in self._layout(layers=0))
        expected = header + 4 * (in_layers + others)
        size = self.file.stat().st_size
        if size != expected:
            raise DataError(
                f"{self.file}: has {size:,} bytes, and a checkpoint of llama2.c with its header "
                f"({', '.join(f'{n} {v:,}' for n, v in self.sizes._asdict().items())}) has "
                f"{expected:,}; it is truncated, or another kind of file."
            )

    def _layer_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the tensors of a layer, in the order of version 0."""
        dim, ffn_dim = self.sizes.dim, self.sizes.ffn_dim
        keys = self.sizes.kv_heads * (dim // self.sizes.heads)
        return {
            "input_layernorm": (dim,),
            "self_attn.q_proj": (dim, dim),
            "self_attn.k_proj": (keys, dim),
            "self_attn.v_proj": (keys, dim),
            "self_attn.o_proj": (dim, dim),
            "post_attention_layernorm": (dim,),
            "mlp.gate_proj": (ffn_dim, dim),
            "mlp.down_proj": (dim, ffn_dim),
            "mlp.up_proj": (ffn_dim, dim),
        }

    def _layout(self, layers: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the tensors of a model with so many layers, in the file's order."""
        dim, heads, vocabulary = self.sizes.dim, self.sizes.heads, self.sizes.vocabulary
        shapes, context = self._layer_shapes(), self.sizes.context
        tokens = ("model.embed_tokens.weight", (vocabulary, dim))
        norm = ("model.norm.weight", (dim,))
        norms = [part for part in shapes if part.endswith("layernorm")]
        if self._version:  # all norms first
            order = norms + [part for part in shapes if part not in norms]
        else:
            order = list(shapes)
            yield tokens
        for number, part in enumerate(order):
            if self._version and number == len(norms):
                yield norm
                yield tokens
            for layer in range(layers):
                yield f"{LAYER_PREFIX.format(layer)}{part}.weight", shapes[part]
        if not self._version:
            yield norm
            yield "cos", (context, dim // heads // 2)  # of the rotary positions
            yield "sin", (context, dim // heads // 2)
        if not self._tied:
            yield "lm_head.weight", (vocabulary, dim)


def pairs_to_halves(weight: Tensor, head_dim: int) -> Tensor:
    """Reorder the rows of W_Q or W_K: from rotary positions that rotate adjacent components to
    those that rotate the first half of a head with the second."""
    heads = weight.view(-1, head_dim // 2, 2, weight.size(1))
    return heads.transpose(1, 2).reshape(weight.shape)


def _model_in(folder: Path) -> Path:
    files = [file for file in sorted(folder.glob("*.bin")) if not file.name.startswith("tok")]
    if not files:
        raise DataError(f"{folder}: there is a tokenizer in it and no model (*.bin).")
    if len(files) > 1:
        raise DataError(
            f"{folder}: has {len(files)} models ({files[0].name}, {files[1].name}"
            f"{', …' if len(files) > 2 else ''}): give the path of one file."
        )
    return files[0]


def _header(file: Path) -> tuple[Sizes, bool, int]:
    """Sizes, whether the output layer is tied to the embedding, and the version."""
    try:
        with file.open("rb") as content:
            start = content.read(HEADER)
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from None
    version, offset = 0, 0
    if start[:4] == struct.pack("<I", MAGIC) and len(start) == HEADER:
        (version,), offset = struct.unpack_from("<i", start, 4), 8
        if version != 1:
            raise DataError(
                f"{file}: is of version {version} of llama2.c's format, and Regard reads 0 and 1, "
                f"which are not quantized; export it again with `export.py --version 1`."
            )
    if len(start) < offset + 4 * len(Sizes._fields):
        raise DataError(f"{file}: has {len(start)} bytes, too few for a checkpoint of llama2.c.")
    sizes = Sizes._make(struct.unpack_from("<7i", start, offset))
    tied = bool(start[36]) if version else sizes.vocabulary > 0
    sizes = sizes._replace(vocabulary=abs(sizes.vocabulary))
    if not sizes.possible:
        raise DataError(
            f"{file}: is not a checkpoint of llama2.c: its first numbers are not the sizes "
            f"of a model ({', '.join(f'{n} {v:,}' for n, v in sizes._asdict().items())})."
        )
    return sizes, tied, version


def _read_bytes(file: Path) -> bytes:
    try:
        if file.stat().st_size > MAX_TOKENIZER:
            raise DataError(f"{file}: has more than {MAX_TOKENIZER:,} bytes: not a tokenizer.")
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from None


def _pieces(file: Path) -> list[tuple[str, float, int]]:
    """Texts, scores and types of the pieces, as in a SentencePiece model."""
    data = _read_bytes(file)
    pieces: list[tuple[str, float, int]] = []
    at = 4  # after the length of the longest
    try:
        (longest,) = struct.unpack_from("<i", data)
        while at < len(data):
            score, length = struct.unpack_from("<fi", data, at)
            at += 8 + length
            if not 0 <= length <= longest or at > len(data):
                raise ValueError(f"piece {len(pieces)} has a length of {length:,}")
            pieces.append((data[at - length : at].decode().replace(" ", "▁"), score, 1))
    except (struct.error, ValueError) as error:
        raise DataError(f"{file}: not a tokenizer of llama2.c, or truncated ({error}).") from None
    names = [text.strip("\n") for text, _, _ in pieces[: len(FIRST)]]
    if tuple(names) != FIRST or tuple(text for text, _, _ in pieces[3:259]) != BYTES:
        raise DataError(
            f"{file}: not a tokenizer of llama2.c: its first pieces are not {', '.join(FIRST)} "
            f"and the 256 bytes."
        )
    kinds = [spm.UNKNOWN, spm.CONTROL, spm.CONTROL, *[spm.BYTE] * len(BYTES)]
    special = [(name, 0.0, kind) for name, kind in zip((*FIRST, *BYTES), kinds, strict=True)]
    return special + pieces[len(special) :]
