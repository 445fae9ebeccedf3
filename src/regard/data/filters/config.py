"""The `data.filters` section of a recipe."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from regard.config import Spec

Action = Literal["drop", "keep"]


class FiltersSpec(Spec):
    """filters: {max_ratio: 5, odd_characters: keep}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "held_out": "eval_overlap",
        "max_lost": "max_dropped",
    }

    max_ratio: float = Field(
        9.0, gt=1, description="maximum length ratio of the two texts of a pair, in characters"
    )
    max_characters: int = Field(10_000, gt=0, description="maximum characters of a text in a pair")
    odd_characters: Action = Field(
        "drop", description="records with control characters or invalid code points"
    )
    fix_encoding: bool = Field(
        False,
        description="repair characters of Windows-1252 that were decoded as Latin-1: U+0092 is ’",
    )
    duplicates: Action = Field("drop", description="records that were read before")
    eval_overlap: Action = Field(
        "drop",
        description="training records that are also in dev or test, in any order of languages and "
        "with any label",
    )
    max_shared_text: int | None = Field(
        40,
        ge=0,
        description="maximum characters of one text that a training pair may share with dev or "
        "test; null: any number",
    )
    exclude_min_letters: int = Field(
        1,
        ge=1,
        description="letters and digits of the shortest text of `data.exclude` that counts; a "
        "shorter one, as Hello!, is in many texts by coincidence",
    )
    max_dropped: float = Field(
        0.1, ge=0, le=1, description="fraction of lines that may be dropped; more ends the run"
    )
