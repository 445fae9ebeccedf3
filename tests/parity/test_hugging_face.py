"""Parity with Hugging Face's BERT, GPT-2 and Marian on the same weights."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.attention.multi_head import MultiHead
from regard.decoding.greedy import greedy
from regard.engine.torch_model import TorchModel
from regard.models.base import ModelSpec
from regard.models.encoder import Encoder
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.language_model import LanguageModel

transformers = pytest.importorskip("transformers")

V, D, H, INNER, LAYERS, LENGTH = 50, 32, 4, 64, 2, 40
SIZES = {
    "dim": D,
    "heads": H,
    "ffn_dim": INNER,
    "layers": LAYERS,
    "dropout": 0.0,
    "max_length": LENGTH,
}


def randomise(model: nn.Module) -> None:
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)


def batch() -> tuple[Tensor, Tensor]:
    token_mask = torch.ones(3, 9, dtype=torch.bool)
    token_mask[0, 5:], token_mask[2, 8:] = False, False
    return torch.randint(4, V, (3, 9)), token_mask


def copy_linear(ours: nn.Linear, weight: Tensor, bias: Tensor) -> None:
    ours.weight.data.copy_(weight)
    ours.bias.data.copy_(bias)


def copy_norm(ours: nn.Module, theirs: nn.LayerNorm) -> None:
    ours.gain.data.copy_(theirs.weight)
    ours.bias.data.copy_(theirs.bias)


def copy_projections(ours: MultiHead, *theirs: nn.Linear) -> None:
    for one, other in zip((ours.w_q, ours.w_k, ours.w_v, ours.w_o), theirs, strict=True):
        copy_linear(one, other.weight, other.bias)


def test_bert() -> None:
    config = transformers.BertConfig(
        vocab_size=V,
        hidden_size=D,
        num_hidden_layers=LAYERS,
        num_attention_heads=H,
        intermediate_size=INNER,
        max_position_embeddings=LENGTH,
    )
    theirs = transformers.BertModel(config, add_pooling_layer=False).eval()
    randomise(theirs)
    ours = ModelSpec.model_validate(
        {
            "kind": "encoder",
            **SIZES,
            "position": "learned",
            "norm": {"kind": "layer", "eps": 1e-12},
            "norm_first": False,
            "feed_forward": {"kind": "dense", "activation": "gelu"},
            "scale_embedding": False,
            "embedding_norm": True,
        }
    ).build(V)
    assert isinstance(ours, Encoder)
    copy_bert(ours.eval(), theirs)
    ids, token_mask = batch()
    expected = theirs(ids, attention_mask=token_mask.long()).last_hidden_state
    assert torch.allclose(ours(ids, token_mask)[token_mask], expected[token_mask], atol=1e-4)


def copy_bert(ours: Encoder, theirs: nn.Module) -> None:
    embeddings = theirs.embeddings
    ours.embedding.tokens.weight.data.copy_(embeddings.word_embeddings.weight)
    # All tokens are of segment 0, so its vector is added to every position.
    table = embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
    ours.embedding.position.table.data.copy_(table)
    copy_norm(ours.embedding.norm, embeddings.LayerNorm)
    for block, layer in zip(ours.blocks, theirs.encoder.layer, strict=True):
        own, output = layer.attention.self, layer.attention.output
        copy_projections(block.attention, own.query, own.key, own.value, output.dense)
        copy_norm(block.attention_residual.norm, output.LayerNorm)
        copy_linear(block.feed_forward.up_proj, *layer.intermediate.dense.parameters())
        copy_linear(block.feed_forward.down_proj, *layer.output.dense.parameters())
        copy_norm(block.feed_forward_residual.norm, layer.output.LayerNorm)


def gpt2() -> tuple[LanguageModel, nn.Module]:
    config = transformers.GPT2Config(
        vocab_size=V,
        n_positions=LENGTH,
        n_embd=D,
        n_layer=LAYERS,
        n_head=H,
        n_inner=INNER,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    randomise(theirs)
    ours = ModelSpec.model_validate(
        {
            "kind": "language-model",
            **SIZES,
            "position": "learned",
            "feed_forward": {"kind": "dense", "activation": "gelu-tanh"},
            "scale_embedding": False,
        }
    ).build(V)
    assert isinstance(ours, LanguageModel)
    copy_gpt2(ours.eval(), theirs.transformer)
    return ours, theirs


def copy_gpt2(ours: LanguageModel, theirs: nn.Module) -> None:
    decoder = ours.decoder
    decoder.embedding.tokens.weight.data.copy_(theirs.wte.weight)
    decoder.embedding.position.table.data.copy_(theirs.wpe.weight)
    copy_norm(decoder.norm, theirs.ln_f)
    for block, layer in zip(decoder.blocks, theirs.h, strict=True):
        copy_norm(block.attention_residual.norm, layer.ln_1)
        copy_norm(block.feed_forward_residual.norm, layer.ln_2)
        # GPT-2's "Conv1D" stores its matrices transposed.
        weights, biases = layer.attn.c_attn.weight.T.chunk(3), layer.attn.c_attn.bias.chunk(3)
        attention = block.attention
        for linear, weight, bias in zip(
            (attention.w_q, attention.w_k, attention.w_v), weights, biases, strict=True
        ):
            copy_linear(linear, weight, bias)
        copy_linear(attention.w_o, layer.attn.c_proj.weight.T, layer.attn.c_proj.bias)
        copy_linear(block.feed_forward.up_proj, layer.mlp.c_fc.weight.T, layer.mlp.c_fc.bias)
        copy_linear(block.feed_forward.down_proj, layer.mlp.c_proj.weight.T, layer.mlp.c_proj.bias)


def test_gpt2() -> None:
    ours, theirs = gpt2()
    ids, token_mask = batch()
    expected = theirs(ids, attention_mask=token_mask.long()).logits
    assert torch.allclose(ours(ids)[token_mask], expected[token_mask], atol=1e-4)


def test_gpt2_greedy_decoding_is_equal() -> None:
    ours, theirs = gpt2()
    first = torch.tensor([2, 7, 11])
    stepper = TorchModel(ours)
    generated = greedy(stepper, stepper.start(), first.numpy(), end=3, limits=[20] * 3)
    for row, start in enumerate(first.tolist()):
        ids = torch.tensor([[start]])
        expected = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20
        )
        assert generated[row] == [token for token in expected[0, 1:].tolist() if token != 3]


def marian() -> tuple[EncoderDecoder, nn.Module]:
    config = transformers.MarianConfig(
        vocab_size=V,
        d_model=D,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=H,
        decoder_attention_heads=H,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        max_position_embeddings=LENGTH,
        activation_function="silu",
        scale_embedding=True,
        pad_token_id=0,
        eos_token_id=3,
        bos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
    )
    theirs = transformers.MarianMTModel(config).eval()
    for name, parameter in theirs.named_parameters():
        if "embed_positions" not in name:
            nn.init.normal_(parameter, std=0.2)
    nn.init.normal_(theirs.final_logits_bias, std=0.2)
    ours = ModelSpec.model_validate(
        {
            "kind": "encoder-decoder",
            **SIZES,
            "position": {"kind": "sinusoidal", "layout": "halves"},
            "norm_first": False,
            "feed_forward": {"kind": "dense", "activation": "silu"},
            "output_bias": True,
        }
    ).build(V)
    assert isinstance(ours, EncoderDecoder)
    copy_marian(ours.eval(), theirs)
    return ours, theirs


def copy_marian(ours: EncoderDecoder, theirs: nn.Module) -> None:
    ours.encoder.embedding.tokens.weight.data.copy_(theirs.model.shared.weight)
    ours.decoder.output.bias.data.copy_(theirs.final_logits_bias[0])
    stacks = (
        (ours.encoder.blocks, theirs.model.encoder.layers),
        (ours.decoder.blocks, theirs.model.decoder.layers),
    )
    for blocks, layers in stacks:
        for block, layer in zip(blocks, layers, strict=True):
            copy_marian_attention(block.attention, layer.self_attn)
            copy_norm(block.attention_residual.norm, layer.self_attn_layer_norm)
            if hasattr(layer, "encoder_attn"):
                copy_marian_attention(block.cross, layer.encoder_attn)
                copy_norm(block.cross_residual.norm, layer.encoder_attn_layer_norm)
            copy_linear(block.feed_forward.up_proj, *layer.fc1.parameters())
            copy_linear(block.feed_forward.down_proj, *layer.fc2.parameters())
            copy_norm(block.feed_forward_residual.norm, layer.final_layer_norm)


def copy_marian_attention(ours: MultiHead, theirs: nn.Module) -> None:
    copy_projections(ours, theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.out_proj)


def test_marian() -> None:
    ours, theirs = marian()
    ids, token_mask = batch()
    target = torch.randint(4, V, (3, 6))
    expected = theirs(
        input_ids=ids, attention_mask=token_mask.long(), decoder_input_ids=target
    ).logits
    assert torch.allclose(ours(ids, token_mask, target), expected, atol=1e-4)


def test_marian_greedy_decoding_is_equal() -> None:
    ours, theirs = marian()
    ids, token_mask = batch()
    stepper = TorchModel(ours)
    state = stepper.start(ids.numpy(), token_mask.numpy())
    generated = greedy(stepper, state, np.full(3, 2), end=3, limits=[20] * 3)
    expected = theirs.generate(
        input_ids=ids,
        attention_mask=token_mask.long(),
        do_sample=False,
        num_beams=1,
        max_new_tokens=20,
        bad_words_ids=None,
    )
    for row in range(3):
        expected_ids = expected[row, 1:].tolist()
        expected_ids = expected_ids[: expected_ids.index(3)] if 3 in expected_ids else expected_ids
        assert generated[row] == expected_ids


def test_rotary_equals_llama() -> None:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    from regard.positions.rotary import Rotary

    q, positions, size = torch.randn(1, H, 7, 8), torch.arange(7), 8
    frequencies = 10_000 ** -(torch.arange(0, size, 2) / size)
    angles = (positions[:, None] * frequencies).repeat(1, 2)[None]
    expected, _ = apply_rotary_pos_emb(q, q, angles.cos(), angles.sin())
    assert torch.allclose(Rotary(size, 10_000, "halves").rotate(q, positions), expected, atol=1e-5)
