"""Pretrained word embeddings (word2vec, GloVe) as initial rows of a model's embedding.

The file is text, plain or gzip: a word and its numbers on each line. A first line with two numbers
(word2vec's count and size) is a header. Only the rows of words in the vocabulary are kept in
memory, so the file may be larger than memory.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import nn

from regard.config import Spec
from regard.data.sources.characters import quote, shortened
from regard.data.sources.lines import decode_line, stream_lines
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError
from regard.models.embedding import Embedding

_HEADER = re.compile(rb"[0-9]{1,12} [0-9]{1,12}")  # of word2vec: number of words, and their size

Vectors = Mapping[str, npt.NDArray[np.float32]]


class PretrainedEmbeddingsSpec(Spec):
    """pretrained_embeddings: {path: glove.6B.50d.txt, frozen: false}"""

    path: Path = Field(..., description="a text file: a word and its numbers on each line")
    frozen: bool = Field(False, description="do not train the rows that the file provides")


@dataclass(frozen=True)
class Coverage:
    """Number of vocabulary rows with and without a pretrained vector."""

    covered: int
    missing: int


def load_pretrained_embeddings(
    model: nn.Module,
    spec: PretrainedEmbeddingsSpec,
    tokenizer: Tokenizer,
    say: Callable[[str], None],
) -> None:
    """Initialize every embedding of the model from the file; a shared embedding once."""
    words = [tokenizer.readable(piece) for piece in tokenizer.vocabulary()]
    candidates = {*words, *map(str.lower, words)}
    embeddings = (module for module in model.modules() if isinstance(module, Embedding))
    for embedding in {embedding.tokens: embedding for embedding in embeddings}.values():
        vectors = read_vectors(spec.path, candidates, embedding.tokens.embedding_dim)
        coverage = set_rows(embedding, words, vectors, spec.frozen)
        say(
            f"{spec.path.name} initializes {coverage.covered:,} of {len(words):,} pieces; "
            f"{coverage.missing:,} are not in it and start at random."
        )


def read_vectors(path: Path, words: Iterable[str], size: int) -> Vectors:
    """Read the vectors of those `words` that the file has; each must have `size` numbers.

    Raises DataError with the line number where a line has another number of values, or a value of a
    word that is used is not a finite number.
    """
    words = set(words)
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    header, count = None, 0
    for number, line in stream_lines(path):
        word, _, rest = line.rstrip().partition(b" ")
        numbers = rest.count(b" ") + 1 if rest else 0
        if number == 1 and _HEADER.fullmatch(line.rstrip()):
            header = int(word), int(rest)
            continue
        count += 1
        _check_size(path, number, numbers, size, header)
        text = decode_line(word, f"{path}, line {number}")
        if text in words:
            vectors[text] = _vector(path, number, rest)
    _check_count(path, count, header)
    return vectors


def _check_size(
    path: Path, line: int, numbers: int, size: int, header: tuple[int, int] | None
) -> None:
    if numbers != size:
        raise DataError(
            f"{path}, line {line}: {numbers} numbers after the word, but the model's size is "
            f"{size}: set model.dim to the size of the vectors, or fix the line."
        )
    if header is not None and header[1] != numbers:
        raise DataError(
            f"{path}, line 1: the header says {header[1]} numbers for each word, and line {line} "
            f"has {numbers}; fetch the file again."
        )


def _check_count(path: Path, count: int, header: tuple[int, int] | None) -> None:
    if header is not None and header[0] != count:
        words, are = "word" if header[0] == 1 else "words", "is" if count == 1 else "are"
        raise DataError(
            f"{path}, line 1: the header says {header[0]} {words}, and there {are} {count}; fetch "
            f"the file again."
        )
    if not count:
        raise DataError(f"{path}: there is no vector in it.")


def _vector(path: Path, line: int, rest: bytes) -> npt.NDArray[np.float32]:
    where = f"{path}, line {line}"
    texts = decode_line(rest, where).split(" ")
    try:
        with np.errstate(over="ignore"):  # to infinity, which is refused below
            vector = np.asarray(texts, dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{where}: not numbers ({shortened(str(error))}).") from None
    if not np.isfinite(vector).all():
        text = texts[int(np.flatnonzero(~np.isfinite(vector))[0])]
        raise DataError(f"{where}: {quote(text)} is not a finite number; fix the line.")
    return vector


def set_rows(
    embedding: Embedding, words: Sequence[str], vectors: Vectors, frozen: bool
) -> Coverage:
    """Set row i to the vector of words[i], as written or in lower case, where there is one.

    The forward pass multiplies rows by a scale; the vectors are divided by it here, so that the
    vectors themselves enter the network. Rows without a vector keep their random initialization
    and are always trained.
    """
    weight = embedding.tokens.weight
    is_set = torch.zeros(len(words), dtype=torch.bool)
    for row, word in enumerate(words):
        vector = vectors.get(word, vectors.get(word.lower()))
        if vector is not None:
            weight.data[row] = torch.from_numpy(vector) / embedding.scale
            is_set[row] = True
    if frozen:
        rows = is_set[:, None]  # the model may be moved to another device after this
        weight.register_hook(lambda gradient: gradient.masked_fill(rows.to(gradient.device), 0.0))
    covered = int(is_set.sum())
    return Coverage(covered, len(words) - covered)
