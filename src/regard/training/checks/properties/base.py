"""A property of a model and its data, measured as one number that should be zero or nearly so.

All properties are measured in float32 without dropout and label smoothing, so a failed check is a
fault of the model and not noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch import Tensor

from regard.config import Kind, kind_specs

if TYPE_CHECKING:
    from regard.training.checks.setup import CheckContext

EXACT = 1e-6  # masked values are multiplied by zero, whatever the order of the sum
ROUNDING = 1e-4  # sums in another order differ by about 1e-6 of the total; errors by far more
KINKS = 1e-3  # rounding may move a ReLU across its kink, which adds or drops a part of the gradient
BATCH_SIZE = 16  # examples in a batch of a check


@dataclass(frozen=True)
class Check:
    """The result of checking one property: the measured number, its limit, and a remedy."""

    name: str
    measured: str  # description of the number
    value: float | None  # None where the property does not apply
    limit: float
    hint: str
    unless: str = "this model generates nothing"  # the reason why it does not apply

    @property
    def failed(self) -> bool:
        return self.value is not None and not self.value <= self.limit  # NaN fails, too


class Property(Kind, package="regard.training.checks.properties"):
    """A kind of property. Checks run in the order of `order`: the cheapest first."""

    order: ClassVar[int]

    def check(self, context: "CheckContext") -> Check:
        """Measure the property; the context's model must not be changed."""
        raise NotImplementedError


def all_properties() -> list[Property]:
    """Return every kind of property, in the order in which they are checked."""
    specs = cast("list[type[Property]]", kind_specs(Property.package))
    return [spec() for spec in sorted(specs, key=lambda spec: spec.order)]


def relative_size(difference: Tensor, reference: Tensor) -> float:
    """Return the largest absolute value of `difference` divided by that of `reference`."""
    if not difference.numel():
        return 0.0
    tiny = torch.finfo(reference.dtype).tiny
    return float(difference.abs().max() / reference.abs().max().clamp_min(tiny))


def worst(values: Sequence[float]) -> float:
    """Return the maximum; unlike Python's `max`, NaN is never passed over."""
    return float(torch.tensor(values).max())
