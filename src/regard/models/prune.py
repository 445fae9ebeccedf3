"""Remove attention heads from a model."""

from collections.abc import Mapping, Sequence

from torch import nn

from regard.attention.multi_head import MultiHead
from regard.errors import ConfigError


def retain_heads(model: nn.Module, retained: Mapping[str, Sequence[int]] | None) -> None:
    """Keep only these heads of each named attention; other attentions keep all their heads.

    Args:
        retained: indices of the retained heads, by the name of the attention module.

    Raises:
        ConfigError: the model has no attention of that name, or no such head.
    """
    attentions = {
        name: module for name, module in model.named_modules() if isinstance(module, MultiHead)
    }
    for name, heads in (retained or {}).items():
        if name not in attentions:
            raise ConfigError(
                f"model.retained_heads: this model has no attention '{name}', only: "
                f"{', '.join(attentions)}."
            )
        try:
            attentions[name].retain_heads(heads)
        except ConfigError as error:
            raise ConfigError(f"model.retained_heads: {name}: {error}") from None
