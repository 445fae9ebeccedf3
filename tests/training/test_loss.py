"""The loss of the language model head ignores padding."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.training.loss import lm_head_loss

B, T, D, V = 3, 5, 8, 11


class Output(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(D, V, bias=False)


def loss_and_gradients(
    model: Output, states: Tensor, targets: Tensor, token_mask: Tensor
) -> list[Tensor]:
    inputs = states.clone().requires_grad_()
    loss = lm_head_loss(model, inputs, targets, token_mask, 0.1)
    return [loss, *torch.autograd.grad(loss, (inputs, model.output.weight))]


def test_padding_changes_neither_loss_nor_gradients() -> None:
    torch.manual_seed(1)
    model = Output().double()
    states, targets = torch.randn(B, T, D, dtype=torch.double), torch.randint(V, (B, T))
    token_mask = torch.ones(B, T, dtype=torch.bool)
    unpadded = loss_and_gradients(model, states, targets, token_mask)
    logits = model.output(states).flatten(0, 1)
    plain = F.cross_entropy(logits, targets.flatten(), label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(unpadded[0], plain)

    longer, more = (F.pad(x, (0, 0, 0, 1) if x.dim() == 3 else (0, 1)) for x in (states, targets))
    loss, d_states, d_weight = loss_and_gradients(model, longer, more, F.pad(token_mask, (0, 1)))
    torch.testing.assert_close([loss, d_states[:, :T], d_weight], unpadded)
    assert not d_states[:, T:].any()
