"""Bidirectional recurrent blocks against torch's packed sequences."""

import pytest
import torch
from torch import nn

from regard.config import kinds
from regard.layers.recurrent.base import Cell, CellSpec
from regard.layers.recurrent.stack import BidirectionalBlock

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


@pytest.mark.parametrize("kind", KINDS)
def test_bidirectional_block_with_padding_equals_packed_sequences(kind):
    block = BidirectionalBlock(build_cell(kind, D), build_cell(kind, D))
    peer = TORCH[kind](D, D, batch_first=True, bidirectional=True)
    copy_to(block.forward_cell, peer)
    copy_to(block.backward_cell, peer, "l0_reverse")
    x, lengths = torch.randn(B, T, D), torch.tensor([4, 7, 1])
    token_mask = torch.arange(T) < lengths[:, None]
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    output, last = peer(packed)
    expected = block.proj(nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0])
    hidden = last[0] if isinstance(last, tuple) else last
    states, ends = block(x, token_mask)
    torch.testing.assert_close(states[token_mask], expected[token_mask], atol=1e-5, rtol=0)
    torch.testing.assert_close(ends, block.proj(torch.cat(list(hidden), -1)), atol=1e-5, rtol=0)
