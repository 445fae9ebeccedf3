"""Labels as people write them: one in a cell, or several with something between them."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from regard.config import Spec


class LabelsSpec(Spec):
    """labels: {separator: ",", none: "-"}"""

    separator: str | None = Field(
        None, min_length=1, description="between several labels of a text; one each unless given"
    )
    none: str | None = Field(
        None, min_length=1, description="with a separator: what stands where a text has no label"
    )

    @model_validator(mode="after")
    def _several_or_none(self) -> Self:
        if self.none is not None and self.separator is None:
            raise ValueError("none: only where a text may have several labels: give separator too")
        return self

    @property
    def several(self) -> bool:
        """May a text have several labels, or none?"""
        return self.separator is not None

    def read(self, written: str | Sequence[str]) -> tuple[str, ...] | None:
        """The labels in a cell or a list, each once; None where one of them is empty."""
        if isinstance(written, str):
            if self.none is not None and written.strip() == self.none:
                return ()
            written = [written] if self.separator is None else written.split(self.separator)
        labels = tuple(dict.fromkeys(cell.strip() for cell in written))
        return labels if all(labels) else None

    def write(self, labels: Sequence[str]) -> str:
        """What would be read as these."""
        return (self.separator or "").join(labels) if labels else self.none or ""
