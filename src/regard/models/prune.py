"""A model with fewer heads than its size says: those that were found needless are gone."""

from collections.abc import Mapping, Sequence

from torch import nn

from regard.attention.multi_head import MultiHead
from regard.errors import ConfigError


def keep_heads(model: nn.Module, kept: Mapping[str, Sequence[int]] | None) -> None:
    """Of each attention that is named, only these heads go on; all heads of the others do."""
    found = {name: each for name, each in model.named_modules() if isinstance(each, MultiHead)}
    for name, heads in (kept or {}).items():
        if name not in found:
            raise ConfigError(
                f"retained_heads: this model has no attention '{name}', only: {', '.join(found)}."
            )
        try:
            found[name].retain_heads(heads)
        except ConfigError as error:
            raise ConfigError(f"retained_heads: {name}: {error}") from None
