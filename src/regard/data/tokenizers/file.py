"""A `tokenizer.json` that exists: one of Hugging Face's, or the one in a run folder.

Its pieces keep their ids. Special pieces and tags that it lacks are added behind them.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field
from tokenizers import Tokenizer as Backend

from regard.data.tokenizer import SPECIAL, Tokenizer, name_of
from regard.data.tokenizers import TokenizerSpec
from regard.data.tokenizers.assembly import tags
from regard.errors import DataError


class Spec(TokenizerSpec):
    """tokenizer: {kind: file, path: tokenizer.json}"""

    needs_text: ClassVar[bool] = False

    path: Path = Field(..., description="a tokenizer.json as the tokenizers library writes it")

    def train(
        self,
        lines: Iterable[str] = (),  # noqa: ARG002
        marks: Sequence[str] = (),
    ) -> Tokenizer:
        backend = self._read()
        # A file can order every text to be cut short or filled up; how long a text may be is said
        # elsewhere.
        backend.no_truncation()
        backend.no_padding()
        needed = (*SPECIAL, *tags(marks))
        backend.add_special_tokens([name_of(piece, backend) or piece for piece in needed])
        return Tokenizer(backend)

    def files(self) -> list[Path]:
        return [self.path]

    def _read(self) -> Backend:
        try:
            return Backend.from_str(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror}).") from None
        except Exception as error:  # the library raises nothing more precise
            raise DataError(
                f"{self.path}: not a tokenizer.json of the tokenizers library ({error})."
            ) from None
