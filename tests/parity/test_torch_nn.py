"""Parity with the layers of torch.nn on the same weights."""

import pytest
import torch
from torch import Tensor, nn

from regard.attention.masks import AttentionMask
from regard.attention.multi_head import MultiHead
from regard.layers.decoder import CachedInput, DecoderBlock
from regard.layers.encoder import EncoderBlock
from regard.layers.norms.layer import LayerNorm
from regard.models.base import ModelSpec
from regard.models.transformer import TransformerSpec, decoder_blocks, encoder_blocks

D, H, INNER = 32, 4, 64


def spec(norm_first: bool, activation: str) -> TransformerSpec:
    made = ModelSpec.model_validate(
        {
            "kind": "encoder",
            "dim": D,
            "heads": H,
            "ffn_dim": INNER,
            "norm_first": norm_first,
            "position": "none",
            "feed_forward": {"kind": "dense", "activation": activation},
        }
    )
    assert isinstance(made, TransformerSpec)
    return made


def copy_attention(ours: MultiHead, theirs: nn.MultiheadAttention) -> None:
    for linear, weight, bias in zip(
        (ours.w_q, ours.w_k, ours.w_v),
        theirs.in_proj_weight.chunk(3),
        theirs.in_proj_bias.chunk(3),
        strict=True,
    ):
        linear.weight.data.copy_(weight)
        linear.bias.data.copy_(bias)
    ours.w_o.load_state_dict(theirs.out_proj.state_dict())


def copy_norm(ours: LayerNorm, theirs: nn.LayerNorm) -> None:
    ours.gain.data.copy_(theirs.weight)
    ours.bias.data.copy_(theirs.bias)


def randomise(module: nn.Module) -> None:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)


def batch() -> tuple[Tensor, Tensor]:
    token_mask = torch.ones(3, 7, dtype=torch.bool)
    token_mask[0, 4:], token_mask[2, 6:] = False, False
    return torch.randn(3, 7, D), token_mask


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(norm_first: bool, activation: str) -> None:
    theirs = nn.TransformerEncoderLayer(
        D, H, INNER, 0.0, activation, batch_first=True, norm_first=norm_first
    ).eval()
    randomise(theirs)
    made = spec(norm_first, activation)
    ours = encoder_blocks(made, made.attention)[0].eval()
    assert isinstance(ours, EncoderBlock)
    copy_attention(ours.attention, theirs.self_attn)
    ours.feed_forward.up_proj.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.down_proj.load_state_dict(theirs.linear2.state_dict())
    copy_norm(ours.attention_residual.norm, theirs.norm1)
    copy_norm(ours.feed_forward_residual.norm, theirs.norm2)
    x, token_mask = batch()
    expected = theirs(x, src_key_padding_mask=~token_mask)
    answer = ours(x, AttentionMask.bidirectional(7, x.device, token_mask))
    assert torch.allclose(answer[token_mask], expected[token_mask], atol=1e-4)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_decoder_layer(norm_first: bool, activation: str) -> None:
    theirs = nn.TransformerDecoderLayer(
        D, H, INNER, 0.0, activation, batch_first=True, norm_first=norm_first
    ).eval()
    randomise(theirs)
    made = spec(norm_first, activation)
    ours = decoder_blocks(made, 1, made.attention)[0].eval()
    assert isinstance(ours, DecoderBlock)
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross, theirs.multihead_attn)
    ours.feed_forward.up_proj.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.down_proj.load_state_dict(theirs.linear2.state_dict())
    copy_norm(ours.attention_residual.norm, theirs.norm1)
    copy_norm(ours.cross_residual.norm, theirs.norm2)
    copy_norm(ours.feed_forward_residual.norm, theirs.norm3)
    memory, token_mask = batch()
    x = torch.randn(3, 5, D)
    future = nn.Transformer.generate_square_subsequent_mask(5)
    expected = theirs(
        x, memory, tgt_mask=future, tgt_is_causal=True, memory_key_padding_mask=~token_mask
    )
    source = CachedInput(
        ours.cross.project_keys_values(memory, torch.arange(7)), AttentionMask.cross(5, token_mask)
    )
    answer, _ = ours(x, CachedInput(None, AttentionMask.causal(0, 5, x.device)), source)
    assert torch.allclose(answer, expected, atol=1e-4)
