"""Pretrained word embeddings (word2vec, GloVe) as initial rows of a model's embedding.

The file is text: a word and its numbers on each line. A first line with two numbers (word2vec's
count and size) is a header. Only the rows of words in the vocabulary are kept in memory, so the
file may be larger than memory.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import nn

from regard.config import Spec
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError
from regard.models.embedding import Embedding

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

    Raises DataError with the line number where a line has another number of values.
    """
    words = set(words)
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                word, *numbers = line.rstrip().split(" ")
                if number == 1 and len(numbers) == 1:
                    continue  # word2vec's header
                if len(numbers) != size:
                    raise DataError(
                        f"{path}, line {number}: {len(numbers)} numbers after the word, but the "
                        f"model's size is {size}: set model.dim to {len(numbers)}."
                    )
                if word in words:
                    vectors[word] = np.asarray(numbers, dtype=np.float32)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise DataError(
            f"{path}: not UTF-8 text; convert binary vectors to the text format."
        ) from None
    except ValueError as error:
        raise DataError(f"{path}, line {number}: not numbers ({error}).") from None
    return vectors


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
