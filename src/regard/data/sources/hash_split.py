"""A share of a file: the lines whose key falls in it, so that one file can be train, dev and test.

    split: {column: 0, key: '[a-z]+', from: 0.0, to: 0.9}

Lines with the same key stand in the same share. Where near-duplicates have a key in common, as the
packages of one program or the pages of one book, none is trained on while another is scored on. The
hash of the key decides: another order of the lines, or more of them, moves none.
"""

import re
from hashlib import blake2b
from typing import Self

from pydantic import Field, field_validator, model_validator

from regard.config import Spec

OUTSIDE_SPLIT = "another split"  # why a line is not read


class HashSplitSpec(Spec):
    """split: {column: 0, key: '^[a-z]+', from: 0.9, to: 1.0}"""

    column: int = Field(..., ge=0, description="which column the key is in, from 0")
    key: str = Field(
        ".*", description="a regular expression: what it finds there is the key (its group, if any)"
    )
    begin: float = Field(0.0, ge=0, le=1, alias="from", description="where the share begins")
    end: float = Field(1.0, ge=0, le=1, alias="to", description="and ends, of 1")

    @field_validator("key")
    @classmethod
    def _is_an_expression(cls, given: str) -> str:
        try:
            re.compile(given)
        except re.error as error:
            raise ValueError(f"{given!r} is no regular expression ({error})") from None
        return given

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.begin >= self.end:
            raise ValueError(f"from {self.begin} to {self.end} there is nothing")
        return self

    def contains(self, cell: str) -> bool:
        """Whether a line with this in the column is in the share."""
        digest = blake2b(self._key(cell).encode(), digest_size=8).digest()
        return self.begin <= int.from_bytes(digest) / 2**64 < self.end

    def _key(self, cell: str) -> str:
        """Where nothing is found, all of it."""
        found = re.search(self.key, cell)
        if found is None:
            return cell
        return next(filter(None, found.groups()), found.group())
