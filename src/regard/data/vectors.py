"""Pretrained word vectors in the text format of word2vec and GloVe: a word and its numbers a line.

A first line with two numbers (word2vec's count and size) is a header. Words that nobody asked for
are passed over while reading, so a file far larger than memory is fine.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field

from regard.config import Spec
from regard.errors import DataError

Vectors = dict[str, npt.NDArray[np.float32]]


class VectorsSpec(Spec):
    path: Path = Field(..., description="a text file: a word and its numbers on each line")
    frozen: bool = Field(False, description="keep the seeded rows as they are while training")


def read_vectors(path: Path, wanted: Iterable[str], size: int) -> Vectors:
    """The vectors of the wanted words that the file has, each of the given size."""
    words = set(wanted)
    found: Vectors = {}
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                word, *numbers = line.rstrip().split(" ")
                if number == 1 and len(numbers) == 1:
                    continue  # word2vec's header
                if len(numbers) != size:
                    raise DataError(
                        f"{path}, line {number}: {len(numbers)} numbers after the word and the "
                        f"model's size is {size}: set model.dim to {len(numbers)}."
                    )
                if word in words:
                    found[word] = np.asarray(numbers, dtype=np.float32)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8 text; binary vectors are not read.") from None
    except ValueError as error:
        raise DataError(f"{path}, line {number}: not numbers ({error}).") from None
    return found
