"""An existing `tokenizer.json`: one of Hugging Face's, or the one in a run folder.

Its pieces keep their ids. Special tokens and tags that it lacks are appended.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field
from tokenizers import Tokenizer as Backend

from regard import run_folder
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.library_errors import library_errors
from regard.data.tokenizers.pipeline import special_pieces
from regard.data.tokenizers.tokenizer import SPECIAL, SPECIAL_ROLES, Tokenizer, backend_name
from regard.errors import DataError
from regard.nearest import cannot_be_read
from regard.pretrained import located


class Spec(TokenizerSpec):
    """tokenizer: {kind: file, path: tokenizer.json}

    With `sha256` the file is identified without being read: data that was prepared with it can be
    used after the file is gone.
    """

    needs_text: ClassVar[bool] = False

    path: Path = Field(
        ..., description="a tokenizer.json of the tokenizers library, or a run folder"
    )
    sha256: str | None = Field(None, description="checksum of the file; refuse any other content")
    start: int | None = Field(None, ge=0, description="id of the start, if not that of the file")
    end: int | None = Field(None, ge=0, description="id of the end, if not that of the file")
    pad: int | None = Field(None, ge=0, description="id of the padding, if not that of the file")

    def train(
        self,
        lines: Iterable[str] = (),
        special_tokens: Sequence[str] = (),
    ) -> Tokenizer:
        backend = self._read()
        # The file may truncate or pad every text; Regard sets lengths elsewhere.
        backend.no_truncation()
        backend.no_padding()
        needed = (*SPECIAL, *special_pieces(special_tokens))
        backend.add_special_tokens([backend_name(piece, backend) or piece for piece in needed])
        return self.restore(Tokenizer(backend).to_json())

    def restore(self, text: str) -> Tokenizer:
        tokenizer = super().restore(text)
        for role in SPECIAL_ROLES:
            if getattr(self, role) is not None:
                setattr(tokenizer, role, getattr(self, role))
        return tokenizer

    def files(self) -> list[Path]:
        return [] if self.sha256 else [self._file()]

    def _file(self) -> Path:
        """Return the tokenizer's file: `path`, or that of the run folder that `path` names."""
        folder = self.path.parent if self.path.name == run_folder.TOKENIZER else self.path
        if self.path.is_file() or not run_folder.exists(located(folder)):
            return self.path
        return run_folder.path_of(folder, run_folder.TOKENIZER)

    def _read(self) -> Backend:
        try:
            data = self._file().read_bytes()
            if self.sha256 not in (None, hashlib.sha256(data).hexdigest()):
                raise DataError(
                    f"{self.path}: not the tokenizer that this recipe was started with (its "
                    f"checksum differs); restore the file, or leave out tokenizer.sha256."
                )
        except OSError as error:
            raise DataError(cannot_be_read(self.path, error)) from None
        with library_errors(
            lambda why: DataError(
                f"{self.path}: not a tokenizer.json of the tokenizers library ({why})."
            )
        ):
            return Backend.from_str(data.decode())
