"""A `tokenizer.json` that exists: one of Hugging Face's, or the one in a run folder.

Its pieces keep their ids. Special pieces and tags that it lacks are added behind them.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field
from tokenizers import Tokenizer as Backend

from regard.data.tokenizers.assembly import tags
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import SPECIAL, SPECIAL_ROLES, Tokenizer, name_of
from regard.errors import DataError


class Spec(TokenizerSpec):
    """tokenizer: {kind: file, path: tokenizer.json}

    With its checksum it is known without being read: what was prepared with it can be used where
    the file itself is gone.
    """

    needs_text: ClassVar[bool] = False

    path: Path = Field(..., description="a tokenizer.json as the tokenizers library writes it")
    sha256: str | None = Field(None, description="of the file; another content is then refused")
    start: int | None = Field(None, ge=0, description="id of the start, where it is not the file's")
    end: int | None = Field(None, ge=0, description="id of the end, likewise")
    pad: int | None = Field(None, ge=0, description="id of the padding, likewise")

    def train(
        self,
        lines: Iterable[str] = (),
        special_tokens: Sequence[str] = (),
    ) -> Tokenizer:
        backend = self._read()
        # A file can order every text to be cut short or filled up; how long a text may be is said
        # elsewhere.
        backend.no_truncation()
        backend.no_padding()
        needed = (*SPECIAL, *tags(special_tokens))
        backend.add_special_tokens([name_of(piece, backend) or piece for piece in needed])
        return self.opened(Tokenizer(backend).to_json())

    def opened(self, text: str) -> Tokenizer:
        tokenizer = super().opened(text)
        for role in SPECIAL_ROLES:
            if getattr(self, role) is not None:
                setattr(tokenizer, role, getattr(self, role))
        return tokenizer

    def files(self) -> list[Path]:
        return [] if self.sha256 else [self.path]

    def _read(self) -> Backend:
        try:
            data = self.path.read_bytes()
            if self.sha256 not in (None, hashlib.sha256(data).hexdigest()):
                raise DataError(
                    f"{self.path}: is not the tokenizer that this recipe began with (its checksum "
                    f"differs); bring that back, or leave out tokenizer.sha256."
                )
            return Backend.from_str(data.decode())
        except DataError:
            raise
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror}).") from None
        except Exception as error:  # the library raises nothing more precise
            raise DataError(
                f"{self.path}: not a tokenizer.json of the tokenizers library ({error})."
            ) from None
