"""What a model is trained to do: functions over (model, batch) that give a loss.

A loss is the sum over the tokens to be predicted, so that whoever puts batches together can
normalise by the tokens of the whole.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.training.cross_entropy import cross_entropy


class Writer(Protocol):
    """A model that ends in a linear layer over the vocabulary."""

    @property
    def output(self) -> nn.Linear: ...


def predict(model: Writer, states: Tensor, words: Tensor, real: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy, summed over the real ones of words (B, T), given states (B, T, D)."""
    if bool(real.all()):
        chosen, wanted = states.flatten(0, 1), words.flatten()
    else:
        chosen, wanted = states[real], words[real]  # padding costs no product with the vocabulary
    output = model.output
    if output.bias is None and chosen.device.type == "cpu" and not torch.is_autocast_enabled("cpu"):
        return cross_entropy(chosen, output.weight, wanted, smoothing)
    return F.cross_entropy(output(chosen), wanted, label_smoothing=smoothing, reduction="sum")
