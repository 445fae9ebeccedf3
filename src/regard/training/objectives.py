"""What a model is trained to do: functions over (model, batch) that give a loss.

A loss is the sum over the tokens to be predicted and their number, so that whoever puts batches
together can normalise by the tokens of the whole.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batching import Batch

IGNORED = -100


def translation(model: nn.Module, batch: Batch, smoothing: float) -> Tensor:
    """Cross-entropy, summed over target tokens, with label smoothing (Szegedy et al. 2016)."""
    logits = model(batch.source, batch.source_padding, batch.target[:, :-1])
    following = batch.target[:, 1:].masked_fill(~batch.target_padding[:, 1:], IGNORED)
    return F.cross_entropy(
        logits.flatten(0, 1),
        following.flatten(),
        ignore_index=IGNORED,
        label_smoothing=smoothing,
        reduction="sum",
    )
