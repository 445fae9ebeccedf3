"""The contract of recurrent cells: every kind equals torch's, step by step and in gradients."""

import pytest
import torch
from torch import nn

from regard.config import kinds
from regard.layers.recurrent.base import Cell, CellSpec

KINDS = kinds("regard.layers.recurrent")

TORCH = {"gru": nn.GRU, "lstm": nn.LSTM}

B, T, INPUTS, D = 3, 7, 5, 6


def build_cell(kind: str, inputs: int = INPUTS) -> Cell:
    torch.manual_seed(0)
    cell = CellSpec.model_validate(kind).build(inputs, D)
    for parameter in cell.parameters():
        nn.init.normal_(parameter, std=0.5)
    return cell


def copy_to(cell: Cell, peer: nn.RNNBase, ending: str = "l0") -> None:
    with torch.no_grad():
        getattr(peer, f"weight_ih_{ending}").copy_(cell.w_x.weight)
        getattr(peer, f"weight_hh_{ending}").copy_(cell.w_h.weight)
        getattr(peer, f"bias_ih_{ending}").copy_(cell.w_x.bias)
        bias = torch.zeros_like(cell.w_x.bias) if cell.w_h.bias is None else cell.w_h.bias
        getattr(peer, f"bias_hh_{ending}").copy_(bias)


def test_every_kind_has_a_torch_equivalent():
    assert sorted(TORCH) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_gradients_equal_torch(kind):
    cell = build_cell(kind)
    peer = TORCH[kind](INPUTS, D, batch_first=True)
    copy_to(cell, peer)
    x, state = torch.randn(B, T, INPUTS), torch.randn(B, cell.state_vectors * D)
    parts = [part.contiguous()[None] for part in state.chunk(cell.state_vectors, dim=-1)]
    expected, last = peer(x, tuple(parts) if len(parts) > 1 else parts[0])
    states = cell.run(x, state)
    torch.testing.assert_close(cell.output(states), expected, atol=1e-5, rtol=0)
    ends = torch.cat([part[0] for part in last], dim=-1) if isinstance(last, tuple) else last[0]
    torch.testing.assert_close(states[:, -1], ends, atol=1e-5, rtol=0)

    weight = torch.randn_like(expected)
    (cell.output(states) * weight).sum().backward()
    (expected * weight).sum().backward()
    ours = [cell.w_x.weight.grad, cell.w_h.weight.grad, cell.w_x.bias.grad]
    theirs = [peer.weight_ih_l0.grad, peer.weight_hh_l0.grad, peer.bias_ih_l0.grad]
    if cell.w_h.bias is not None:
        ours, theirs = [*ours, cell.w_h.bias.grad], [*theirs, peer.bias_hh_l0.grad]
    for actual, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(actual, reference, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_equal_run_and_reset_clears_the_state(kind):
    cell = build_cell(kind)
    x = torch.randn(B, T, INPUTS)
    states = cell.run(x)
    state = cell.initial_state(x)
    for step in range(T):
        state = cell(cell.w_x(x[:, step]), state)
        torch.testing.assert_close(state, states[:, step])
    resets = torch.zeros(B, T, dtype=torch.bool)
    resets[:, 3] = True
    parts = torch.cat([cell.run(x[:, :3]), cell.run(x[:, 3:])], dim=1)
    torch.testing.assert_close(cell.run(x, resets=resets), parts)


@pytest.mark.parametrize("kind", KINDS)
def test_initial_recurrent_weights_are_orthogonal_and_forget_bias_is_one(kind):
    cell = build_cell(kind)
    cell.initialize()
    for gate in cell.w_h.weight.chunk(cell.gates):
        torch.testing.assert_close(gate @ gate.T, torch.eye(D), atol=1e-5, rtol=0)
    bias = cell.w_x.bias.detach().view(cell.gates, D)
    assert [float(gate.mean()) for gate in bias] == ([0, 1, 0, 0] if kind == "lstm" else [0, 0, 0])
