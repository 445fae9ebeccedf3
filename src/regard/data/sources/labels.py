"""Format of labels: one in a cell, or several with a separator."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from regard.config import Spec


class LabelsSpec(Spec):
    """labels: {separator: ",", none: "-"}"""

    separator: str | None = Field(
        None, min_length=1, description="separator of several labels; default: one label a text"
    )
    none: str | None = Field(
        None, min_length=1, description="with a separator: the value of a text without labels"
    )

    @model_validator(mode="after")
    def _check_separator(self) -> Self:
        if self.none is not None and self.separator is None:
            raise ValueError("none: only where a text may have several labels: give separator too")
        return self

    @property
    def several(self) -> bool:
        """True if a text may have several labels, or none."""
        return self.separator is not None

    def read(self, value: str | Sequence[str]) -> tuple[str, ...] | None:
        """Return the labels in a cell or a list, each once, or None if one of them is empty."""
        if isinstance(value, str):
            if self.none is not None and value.strip() == self.none:
                return ()
            value = [value] if self.separator is None else value.split(self.separator)
        labels = tuple(dict.fromkeys(label.strip() for label in value))
        return labels if all(labels) else None

    def write(self, labels: Sequence[str]) -> str:
        """Return the cell that is read as these labels."""
        return (self.separator or "").join(labels) if labels else self.none or ""
