"""Cells: each equals torch's, in what it says and in what it learns."""

import pytest
import torch
from torch import nn

from regard.config import kinds
from regard.layers.recurrent.base import Cell, CellSpec
from regard.layers.recurrent.stack import BidirectionalBlock

KINDS = kinds("regard.layers.recurrent")
TORCH = {"gru": nn.GRU, "lstm": nn.LSTM}
B, T, INPUTS, D = 3, 7, 5, 6


def cell_of(kind: str, inputs: int = INPUTS) -> Cell:
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
        own = torch.zeros_like(cell.w_x.bias) if cell.w_h.bias is None else cell.w_h.bias
        getattr(peer, f"bias_hh_{ending}").copy_(own)


def test_every_kind_has_its_peer():
    assert sorted(TORCH) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_equals_torchs_and_learns_alike(kind):
    cell = cell_of(kind)
    peer = TORCH[kind](INPUTS, D, batch_first=True)
    copy_to(cell, peer)
    x, state = torch.randn(B, T, INPUTS), torch.randn(B, cell.state_vectors * D)
    parts = [each.contiguous()[None] for each in state.chunk(cell.state_vectors, dim=-1)]
    wanted, last = peer(x, tuple(parts) if len(parts) > 1 else parts[0])
    states = cell.run(x, state)
    torch.testing.assert_close(cell.output(states), wanted, atol=1e-5, rtol=0)
    ends = torch.cat([each[0] for each in last], dim=-1) if isinstance(last, tuple) else last[0]
    torch.testing.assert_close(states[:, -1], ends, atol=1e-5, rtol=0)

    weight = torch.randn_like(wanted)
    (cell.output(states) * weight).sum().backward()
    (wanted * weight).sum().backward()
    ours = [cell.w_x.weight.grad, cell.w_h.weight.grad, cell.w_x.bias.grad]
    theirs = [peer.weight_ih_l0.grad, peer.weight_hh_l0.grad, peer.bias_ih_l0.grad]
    if cell.w_h.bias is not None:
        ours, theirs = [*ours, cell.w_h.bias.grad], [*theirs, peer.bias_hh_l0.grad]
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_with_padding_equals_packed_sequences(kind):
    block = BidirectionalBlock(cell_of(kind, D), cell_of(kind, D))
    peer = TORCH[kind](D, D, batch_first=True, bidirectional=True)
    copy_to(block.forward_cell, peer)
    copy_to(block.backward_cell, peer, "l0_reverse")
    x, lengths = torch.randn(B, T, D), torch.tensor([4, 7, 1])
    token_mask = torch.arange(T) < lengths[:, None]
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    output, last = peer(packed)
    wanted = block.proj(nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0])
    hidden = last[0] if isinstance(last, tuple) else last
    states, ends = block(x, token_mask)
    torch.testing.assert_close(states[token_mask], wanted[token_mask], atol=1e-5, rtol=0)
    torch.testing.assert_close(ends, block.proj(torch.cat(list(hidden), -1)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_equal_the_run_and_a_beginning_forgets(kind):
    cell = cell_of(kind)
    x = torch.randn(B, T, INPUTS)
    states = cell.run(x)
    state = cell.initial_state(x)
    for at in range(T):
        state = cell(cell.w_x(x[:, at]), state)
        torch.testing.assert_close(state, states[:, at])
    resets = torch.zeros(B, T, dtype=torch.bool)
    resets[:, 3] = True
    parts = torch.cat([cell.run(x[:, :3]), cell.run(x[:, 3:])], dim=1)
    torch.testing.assert_close(cell.run(x, resets=resets), parts)


@pytest.mark.parametrize("kind", KINDS)
def test_first_weights_keep_the_length_of_a_state_and_remember(kind):
    cell = cell_of(kind)
    cell.initialize()
    for gate in cell.w_h.weight.chunk(cell.gates):
        torch.testing.assert_close(gate @ gate.T, torch.eye(D), atol=1e-5, rtol=0)
    bias = cell.w_x.bias.detach().view(cell.gates, D)
    assert [float(gate.mean()) for gate in bias] == ([0, 1, 0, 0] if kind == "lstm" else [0, 0, 0])
