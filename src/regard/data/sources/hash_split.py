"""Split of a file by the hash of a key, so that one file can be train, dev and test.

    split: {column: 0, key: '[a-z]+', from: 0.0, to: 0.9}

Lines with the same key are in the same split. Where near-duplicates have a key in common, as the
packages of one program or the pages of one book, none is in train while another is in test. The
hash of the key decides, so that reordering or adding lines moves no other line.
"""

import re
from hashlib import blake2b
from typing import Self

from pydantic import Field, field_validator, model_validator

from regard.config import Spec
from regard.data.sources.columns import Column

OUTSIDE_SPLIT = "another split"  # the reason why a line is not read


class HashSplitSpec(Spec):
    """split: {column: 0, key: '^[a-z]+', from: 0.9, to: 1.0}"""

    column: Column = Field(..., description="column of the key, from 0; with header, its name")
    key: str = Field(
        ".*",
        description="regular expression whose match (or group, if any) in the column is the key",
    )
    begin: float = Field(0.0, ge=0, le=1, alias="from", description="start of the range, 0 to 1")
    end: float = Field(1.0, ge=0, le=1, alias="to", description="end of the range, 0 to 1")

    @field_validator("key")
    @classmethod
    def _check_expression(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"{value!r} is no regular expression ({error})") from None
        return value

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.begin >= self.end:
            raise ValueError(f"from {self.begin} to {self.end} there is nothing; raise to")
        return self

    def contains(self, cell: str) -> bool:
        """Return True if a line with this cell in the column is in the split."""
        digest = blake2b(self._key(cell).encode(), digest_size=8).digest()
        return self.begin <= int.from_bytes(digest) / 2**64 < self.end

    def _key(self, cell: str) -> str:
        """Return the key of a cell: the whole cell where the expression does not match."""
        match = re.search(self.key, cell)
        if match is None:
            return cell
        return next(filter(None, match.groups()), match.group())
