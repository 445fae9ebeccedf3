"""Imports of models with generated configs compute what transformers computes, or are refused."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import transformers

from regard.data.config import Direction
from regard.errors import RegardError
from regard.interchange.config import HARMLESS
from regard.interchange.families.base import family_of
from regard.interchange.importing import import_model

from .conftest import byte_level, randomized

DIRECTION = Direction("fr", "en")
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
ACTIVATIONS = ["relu", "gelu", "gelu_new", "silu", "gelu_pytorch_tanh"]
Settings = dict[str, Any]


def gpt2(draw: random.Random) -> Any:
    heads = draw.choice([1, 2, 3])
    config = transformers.GPT2Config(
        n_embd=heads * draw.choice([3, 4, 8]), n_head=heads, n_layer=draw.choice([1, 2]),
        n_inner=draw.choice([None, 7, 20]), n_positions=draw.choice([5, 33]),
        activation_function=draw.choice(ACTIVATIONS), tie_word_embeddings=draw.random() < 0.5,
        layer_norm_epsilon=draw.choice([1e-5, 1e-2]), **sizes(),
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def llama(draw: random.Random) -> Any:
    heads, kv_heads = draw.choice([(4, 2), (4, 4), (4, 1), (6, 3)])
    head_dim = draw.choice([None, 2, 6])
    scaling = draw.choice(
        [
            None,
            {"rope_type": "linear", "factor": 3.0},
            {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
             "high_freq_factor": 3.0, "original_max_position_embeddings": 16},
        ]
    )  # fmt: skip
    config = transformers.LlamaConfig(
        hidden_size=heads * 4, intermediate_size=draw.choice([7, 24]), head_dim=head_dim,
        num_hidden_layers=draw.choice([1, 2]), num_attention_heads=heads,
        num_key_value_heads=kv_heads, max_position_embeddings=64,
        hidden_act=draw.choice(ACTIVATIONS), rms_norm_eps=draw.choice([1e-6, 1e-2]),
        attention_bias=draw.random() < 0.5, mlp_bias=draw.random() < 0.5,
        tie_word_embeddings=draw.random() < 0.5,
        rope_parameters={"rope_theta": draw.choice([100.0, 1e4]), **(scaling or {})}, **sizes(),
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def encoder(draw: random.Random, roberta: bool) -> Any:
    heads = draw.choice([1, 2, 3])
    kind = transformers.RobertaConfig if roberta else transformers.BertConfig
    config = kind(
        hidden_size=heads * draw.choice([3, 4]), num_attention_heads=heads,
        intermediate_size=draw.choice([7, 20]), num_hidden_layers=draw.choice([1, 2]),
        hidden_act=draw.choice(ACTIVATIONS), max_position_embeddings=draw.choice([9, 40]),
        type_vocab_size=draw.choice([1, 2]), layer_norm_eps=draw.choice([1e-12, 1e-2]),
        tie_word_embeddings=draw.random() < 0.5,
        **{**sizes(), "pad_token_id": draw.choice([0, 1, 4])},
    )  # fmt: skip
    name = draw.choice(["Model", "ForMaskedLM", "ForSequenceClassification"])
    return getattr(transformers, f"{'Roberta' if roberta else 'Bert'}{name}")(config)


def distilbert(draw: random.Random) -> Any:
    heads = draw.choice([1, 2, 3])
    config = transformers.DistilBertConfig(
        dim=heads * draw.choice([3, 4]), n_heads=heads, hidden_dim=draw.choice([7, 20]),
        n_layers=draw.choice([1, 2]), activation=draw.choice(ACTIVATIONS),
        max_position_embeddings=draw.choice([9, 40]), sinusoidal_pos_embds=draw.random() < 0.3,
        tie_word_embeddings=draw.random() < 0.5, **sizes(),
    )  # fmt: skip
    name = draw.choice(["Model", "ForMaskedLM", "ForSequenceClassification"])
    return getattr(transformers, f"DistilBert{name}")(config)


def marian(draw: random.Random, pegasus: bool) -> Any:
    heads = draw.choice([1, 2, 3])
    ffn_dim = draw.choice([7, 20])
    kind = transformers.PegasusConfig if pegasus else transformers.MarianConfig
    config = kind(
        d_model=heads * draw.choice([3, 4]), encoder_layers=draw.choice([1, 2]),
        decoder_layers=draw.choice([1, 2]), encoder_attention_heads=heads,
        decoder_attention_heads=heads, encoder_ffn_dim=ffn_dim, decoder_ffn_dim=ffn_dim,
        max_position_embeddings=draw.choice([9, 40]), scale_embedding=draw.random() < 0.5,
        activation_function=draw.choice(ACTIVATIONS), decoder_start_token_id=0, **sizes(),
    )  # fmt: skip
    model = transformers.PegasusForConditionalGeneration if pegasus else transformers.MarianMTModel
    return model(config)


def t5(draw: random.Random) -> Any:
    config = transformers.T5Config(
        d_model=draw.choice([6, 8]), d_kv=draw.choice([3, 4]), d_ff=draw.choice([7, 20]),
        num_layers=draw.choice([1, 2]), num_decoder_layers=draw.choice([None, 1]),
        num_heads=draw.choice([1, 3]), feed_forward_proj=draw.choice(
            ["relu", "gated-gelu", "gated-silu", "gelu_new"]
        ),
        relative_attention_num_buckets=draw.choice([4, 7, 32]),
        relative_attention_max_distance=draw.choice([20, 128, 150]),
        layer_norm_epsilon=draw.choice([1e-6, 1e-2]), tie_word_embeddings=draw.random() < 0.5,
        decoder_start_token_id=0, **sizes(),
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


FAMILIES: dict[str, Callable[[random.Random], Any]] = {
    "gpt2": gpt2,
    "llama": llama,
    "bert": lambda draw: encoder(draw, roberta=False),
    "roberta": lambda draw: encoder(draw, roberta=True),
    "distilbert": distilbert,
    "marian": lambda draw: marian(draw, pegasus=False),
    "pegasus": lambda draw: marian(draw, pegasus=True),
    "t5": t5,
}


@cache
def tokenizer() -> Any:
    return byte_level(SPECIAL)


def sizes() -> Settings:
    return {"vocab_size": tokenizer().get_vocab_size() + 3, **IDS}


def save(model: Any, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    randomized(model).save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_generated_models_compute_what_transformers_computes(family: str, tmp_path: Path) -> None:
    for seed in range(4):
        folder = save(FAMILIES[family](random.Random(f"{family} {seed}")), tmp_path / "theirs")
        difference = import_model(folder, tmp_path / f"run-{seed}", DIRECTION, verify=True)
        assert 0 <= (difference or 0.0) < 1e-5, seed


def changed(value: Any) -> Iterator[Any]:
    """Other values of a key, for the type of its value."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield 0.25
    elif isinstance(value, str):
        yield from ("relu", "relative_key")
    elif value is None:
        yield from (1, True)
    yield [1]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_changed_key_is_followed_or_refused(family: str, tmp_path: Path) -> None:
    """A key that Regard does not read must not change what transformers computes."""
    folder = save(FAMILIES[family](random.Random(f"{family} keys")), tmp_path / "theirs")
    described = family_of(family, "").config
    config = json.loads((folder / "config.json").read_text())
    absent = {key: None for key in described.model_fields if key not in config}
    harmless = {key for keys in {**HARMLESS, **described.harmless}.values() for key in keys}
    read = {key: value for key, value in {**absent, **config}.items() if key not in harmless}
    for key, value in read.items():
        for other in changed(value):
            (folder / "config.json").write_text(json.dumps({**config, key: other}))
            message = refusal(folder, tmp_path / "run")
            assert "computes something else" not in message, f"{key}: {other!r}"
            assert "\n" not in message
    assert len(read) > 12


def refusal(folder: Path, run: Path) -> str:
    """Message of a refused import, or "" if the model was imported and computes the same."""
    try:
        import_model(folder, run, DIRECTION, verify=True)
    except RegardError as error:
        return str(error)
    return ""


HARMLESS_VALUES: Settings = {
    "attention_dropout": 0.4, "attn_pdrop": 0.4, "embd_pdrop": 0.4, "initializer_range": 0.3,
    "attention_probs_dropout_prob": 0.4, "activation_dropout": 0.4, "init_std": 0.3,
    "initializer_factor": 2.0, "chunk_size_feed_forward": 1, "use_cache": False, "n_ctx": 7,
    "reorder_and_upcast_attn": True, "pretraining_tp": 2, "classifier_dropout": 0.3,
    "num_beams": 4, "max_length": 7, "summary_type": "mean", "encoder_layerdrop": 0.2,
    "decoder_layerdrop": 0.2, "static_position_embeddings": True, "extra_pos_embeddings": 1,
    "pooler_type": "first_token_transform", "directionality": "bidi",
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_harmless_keys_change_nothing(family: str, tmp_path: Path) -> None:
    folder = save(FAMILIES[family](random.Random(f"{family} keys")), tmp_path / "theirs")
    config = json.loads((folder / "config.json").read_text())
    described = family_of(family, "").config
    harmless = {key for keys in {**HARMLESS, **described.harmless}.values() for key in keys}
    values = {key: value for key, value in HARMLESS_VALUES.items() if key in harmless}
    (folder / "config.json").write_text(json.dumps({**config, **values}))
    assert import_model(folder, tmp_path / "run", DIRECTION, verify=True) is not None
