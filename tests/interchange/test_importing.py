"""Imported Hugging Face models give the same logits and decode the same tokens."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers.processors import TemplateProcessing

import regard
from regard import run_folder
from regard.data.config import Direction
from regard.errors import DataError, RegardError
from regard.interchange.exports import huggingface
from regard.interchange.importing import import_model

from .conftest import TEXT, byte_level, randomized, saved, word_pieces

DIRECTION = Direction("fr", "en")
NO_LIMIT = {"output_attentions": False}


def gpt2(vocabulary: int, **more: Any) -> Any:
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_positions=64, n_embd=32, n_layer=2, n_head=4,
        bos_token_id=0, eos_token_id=0, pad_token_id=None, **more,
    )  # fmt: skip
    return randomized(transformers.GPT2LMHeadModel(config))


def llama(vocabulary: int, **more: Any) -> Any:
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
        **{"num_key_value_heads": 2, "tie_word_embeddings": False, **more},
    )  # fmt: skip
    return randomized(transformers.LlamaForCausalLM(config))


def bert(vocabulary: int, roberta: bool) -> Any:
    kind = transformers.RobertaConfig if roberta else transformers.BertConfig
    config = kind(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=66, type_vocab_size=2, pad_token_id=1,
    )  # fmt: skip
    model = transformers.RobertaModel if roberta else transformers.BertModel
    return randomized(model(config, add_pooling_layer=True))


def marian(vocabulary: int, pegasus: bool) -> Any:
    kind = transformers.PegasusConfig if pegasus else transformers.MarianConfig
    config = kind(
        vocab_size=vocabulary, d_model=32, encoder_layers=2, decoder_layers=3,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
        decoder_ffn_dim=48, max_position_embeddings=64, pad_token_id=0, eos_token_id=3,
        bos_token_id=2, decoder_start_token_id=0, forced_eos_token_id=None, scale_embedding=True,
        activation_function="silu",
    )  # fmt: skip
    model = transformers.PegasusForConditionalGeneration if pegasus else transformers.MarianMTModel
    return randomized(model(config))


def t5(vocabulary: int, **more: Any) -> Any:
    config = transformers.T5Config(
        vocab_size=vocabulary, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
        pad_token_id=0, eos_token_id=3, decoder_start_token_id=0, **more,
    )  # fmt: skip
    return randomized(transformers.T5ForConditionalGeneration(config))


@pytest.fixture(scope="module")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = byte_level(["<unk>", "<s>", "</s>"])
    folder = tmp_path_factory.mktemp("llama") / "theirs"
    return saved(llama(tokenizer.get_vocab_size()), tokenizer, folder)


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "llama, all keys, tied"])
def test_imported_language_models_equal_hugging_face(
    architecture: str, folder: Path, tmp_path: Path
) -> None:
    tokenizer = byte_level(
        ["<|endoftext|>"] if architecture == "gpt2" else ["<unk>", "<s>", "</s>"]
    )
    vocabulary = tokenizer.get_vocab_size()
    more = {"num_key_value_heads": 4, "tie_word_embeddings": True} if "tied" in architecture else {}
    theirs = gpt2(vocabulary) if architecture == "gpt2" else llama(vocabulary, **more)
    import_model(saved(theirs, tokenizer, folder), tmp_path / "run")
    ours = regard.load(tmp_path / "run")
    ids = torch.randint(3, vocabulary, (3, 20))
    with torch.inference_mode():
        torch.testing.assert_close(ours.model(ids), theirs(ids).logits, atol=1e-4, rtol=1e-4)
    for prompt in TEXT[:3]:
        prompt_ids = [*ours.bos, *tokenizer.encode(prompt).ids]
        expected = theirs.generate(
            torch.tensor([prompt_ids]), max_new_tokens=12, do_sample=False, pad_token_id=0
        )[0, len(prompt_ids) :].tolist()
        end = ours.tokenizer.end
        expected = expected[: expected.index(end)] if end in expected else expected
        assert ours.generate(prompt, 12) == ours.tokenizer.decode(expected)


@pytest.mark.parametrize("roberta", [False, True])
def test_imported_encoders_equal_hugging_face(roberta: bool, folder: Path, tmp_path: Path) -> None:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = byte_level(special) if roberta else word_pieces()
    theirs = bert(tokenizer.get_vocab_size(), roberta)
    import_model(saved(theirs, tokenizer, folder), tmp_path / "run")
    ours = regard.load(tmp_path / "run")
    ids = torch.randint(5, tokenizer.get_vocab_size(), (3, 9))
    token_mask = torch.arange(9) < torch.tensor([9, 4, 6])[:, None]
    if roberta:  # its positions count only real tokens
        ids = ids.where(token_mask, 1)
    with torch.inference_mode():
        expected = theirs(ids, attention_mask=token_mask.long()).last_hidden_state
        states = ours.model(ids, token_mask)
    torch.testing.assert_close(states[token_mask], expected[token_mask], atol=1e-4, rtol=1e-4)
    vectors = regard.load(tmp_path / "run").embed(TEXT[:4])  # by the engine, where there is one
    assert vectors.shape == (4, 32)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(4))
    for vector, text in zip(vectors, TEXT, strict=False):
        with torch.inference_mode():
            states = theirs(torch.tensor([ours.encode(text)])).last_hidden_state
        mean = torch.nn.functional.normalize(states.mean(1), dim=-1)[0]
        torch.testing.assert_close(vector, mean, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("architecture", ["marian", "pegasus", "t5", "t5 gated, not scaled"])
def test_imported_translators_equal_hugging_face(
    architecture: str, folder: Path, tmp_path: Path
) -> None:
    tokenizer = byte_level(["<pad>", "<unk>", "<s>", "</s>"])
    vocabulary = tokenizer.get_vocab_size()
    theirs = (
        t5(vocabulary)
        if architecture == "t5"
        else t5(vocabulary, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
        if "t5" in architecture
        else marian(vocabulary, architecture == "pegasus")
    )
    import_model(saved(theirs, tokenizer, folder), tmp_path / "run", DIRECTION)
    ours = regard.load(tmp_path / "run")
    source = torch.randint(4, vocabulary, (3, 9))
    token_mask = torch.arange(9) < torch.tensor([9, 4, 6])[:, None]
    target = torch.randint(4, vocabulary, (3, 40))
    with torch.inference_mode():
        expected = theirs(source, attention_mask=token_mask.long(), decoder_input_ids=target).logits
        logits = ours.model(source, token_mask, target)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)
    rows = [[*tokenizer.encode(line).ids, 3] for line in TEXT[:4]]
    for row, output in zip(rows, ours.translate_ids(rows), strict=True):
        limit = min(2 * len(row) + 10, ours.max_length - 1)
        generated = theirs.generate(
            torch.tensor([row]), max_new_tokens=limit, do_sample=False, num_beams=1
        )
        expected = generated[0, 1:].tolist()
        assert output == (expected[: expected.index(3)] if 3 in expected else expected)


def test_pickles_are_refused_with_a_remedy(folder: Path, tmp_path: Path) -> None:
    saved(gpt2(300), byte_level(["<|endoftext|>"]), folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"pytorch_model\.bin.*save_pretrained"):
        import_model(folder, tmp_path / "run")
    shutil.copy(folder / "pytorch_model.bin", folder / "model.safetensors")
    with pytest.raises(DataError, match=r"pytorch_model\.bin.*delete it"):
        import_model(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_damaged_and_unknown_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(DataError, match="no such folder"):
        import_model(folder, run)
    tokenizer = byte_level(["<|endoftext|>"])
    saved(gpt2(tokenizer.get_vocab_size()), tokenizer, folder)
    config = json.loads((folder / "config.json").read_text())
    for change, said in (
        ({"model_type": "mamba"}, "'mamba' cannot be imported"),
        ({"activation_function": "quick_gelu"}, "activation_function is 'quick_gelu'"),
        ({"n_embd": None}, "n_embd is missing"),
        ({"n_layer": 3}, r"the weights have no h\.2"),
        ({"n_layer": 1}, r"h\.1.*does not explain"),
    ):
        (folder / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(DataError, match=said):
            import_model(folder, run)
    (folder / "config.json").write_text(json.dumps(config))
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-100])
    with pytest.raises(DataError, match="damaged or truncated"):
        import_model(folder, run)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(DataError, match="no tokenizer"):
        import_model(folder, run)
    assert not run.exists()


def rewrite(folder: Path, name: str = "config.json", **changes: Any) -> None:
    path = folder / name
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **changes}))


def test_untied_output_layer_is_imported(folder: Path, tmp_path: Path) -> None:
    tokenizer = byte_level(["<|endoftext|>"])
    theirs = gpt2(tokenizer.get_vocab_size(), tie_word_embeddings=False)
    assert not torch.equal(theirs.lm_head.weight, theirs.transformer.wte.weight)
    import_model(saved(theirs, tokenizer, folder), tmp_path / "run")
    ids = torch.randint(3, tokenizer.get_vocab_size(), (3, 20))
    with torch.inference_mode():
        logits = regard.load(tmp_path / "run").model(ids)
        torch.testing.assert_close(logits, theirs(ids).logits, atol=1e-4, rtol=1e-4)
    rewrite(folder, tie_word_embeddings=True)  # contradicts the weights
    with pytest.raises(DataError, match=r"lm_head\.weight differs from transformer\.wte"):
        import_model(folder, tmp_path / "other")


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 500.0},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
        {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                          "high_freq_factor": 4.0, "original_max_position_embeddings": 32}},
    ],
)  # fmt: skip
def test_scaled_rotary_positions_are_imported(
    rope: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    tokenizer = byte_level(["<unk>", "<s>", "</s>"])
    saved(llama(tokenizer.get_vocab_size()), tokenizer, folder)
    config = json.loads((folder / "config.json").read_text())
    del config["rope_parameters"]
    (folder / "config.json").write_text(json.dumps({**config, **rope}))
    assert import_model(folder, tmp_path / "run", verify=True) < 1e-5
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder)
    ours = regard.load(tmp_path / "run")
    prompt = [*ours.bos, *tokenizer.encode(TEXT[0]).ids]
    expected = theirs.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)
    text = ours.tokenizer.decode(expected[0, len(prompt) :].tolist())
    assert ours.generate(TEXT[0], 12) == text  # by the compiled engine


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type 'dynamic'"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "rope_type 'yarn'"),
        ({"rope_scaling": {"type": "linear"}}, "factor is missing"),
        ({"rope_scaling": {"factor": 2.0}}, "factor, which rope_type 'default' does not read"),
        ({"rope_scaling": {"type": "linear", "factor": 0.5}}, "rope_scaling"),
        ({"rope_scaling": {"type": "linear", "factor": "2"}}, "rope_scaling"),
        ({"rope_scaling": 2}, "rope_scaling is 2"),
        ({"rope_theta": 5.0}, "rope_theta is 5, and 10000 in rope_parameters"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"sliding_window": 8}, "sliding_window is 8"),
        ({"attn_logit_softcapping": 30.0}, "attn_logit_softcapping is 30.0.*does not know"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"auto_map": {"AutoModel": "code.py"}}, "auto_map"),
        ({"num_key_value_heads": 3}, "key heads"),
        ({"vocab_size": 7}, "vocab_size is 7, and the embedding has"),
        ({"hidden_size": 1 << 20}, "has the shape"),
        ({"num_hidden_layers": 4000}, "the weights have no model.layers.2"),
        ({"num_hidden_layers": 1e3}, "num_hidden_layers is 1000.0"),
        ({"num_hidden_layers": 10**400}, "num_hidden_layers is 1000"),
        ({"model_type": ["llama"]}, "models of type"),
    ],
)
def test_unsupported_settings_are_refused(
    rope: dict[str, Any], message: str, folder: Path, tmp_path: Path, llama_folder: Path
) -> None:
    shutil.copytree(llama_folder, folder)
    rewrite(folder, **({"rope_parameters": None} if "rope_scaling" in rope else {}), **rope)
    with pytest.raises(RegardError, match=message) as error:
        import_model(folder, tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("setting", [None, True, False])
@pytest.mark.parametrize("post_processor", [False, True])
def test_texts_begin_as_in_transformers(
    post_processor: bool, setting: bool | None, folder: Path, tmp_path: Path
) -> None:
    """With the start token or without it, imported and exported again."""
    tokenizer = byte_level(["<unk>", "<s>", "</s>"])
    if post_processor:
        tokenizer.post_processor = TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    saved(llama(tokenizer.get_vocab_size()), tokenizer, folder)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
    given = {} if setting is None else {"add_bos_token": setting}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | given))
    import_model(folder, tmp_path / "run")
    ours = regard.load_language_model(tmp_path / "run").encode(TEXT[0])
    assert ours == transformers.AutoTokenizer.from_pretrained(folder)(TEXT[0]).input_ids
    huggingface.export(run_folder.read(tmp_path / "run"), tmp_path / "out")
    exported = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert dict(exported(TEXT[0])) == {"input_ids": ours, "attention_mask": [1] * len(ours)}
    import_model(tmp_path / "out", tmp_path / "again")
    assert ours == regard.load_language_model(tmp_path / "again").encode(TEXT[0])


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_end_tokens_are_imported(
    name: str, folder: Path, tmp_path: Path, llama_folder: Path
) -> None:
    """A text ends at any token of eos_token_id, as in transformers."""
    shutil.copytree(llama_folder, folder)
    import_model(folder, tmp_path / "plain")
    plain = regard.load_language_model(tmp_path / "plain")
    prompt = plain.encode(TEXT[0])
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder)
    free = theirs.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False)
    generated = free[0, len(prompt) :].tolist()
    other = generated[7]
    if name == "config.json":
        (folder / "generation_config.json").unlink()
    rewrite(folder, name, eos_token_id=[2, other])
    import_model(folder, tmp_path / "run")
    ours = regard.load_language_model(tmp_path / "run")
    assert (ours.tokenizer.end, ours.other_ends) == (2, [other])
    expected = ours.tokenizer.decode_after(prompt)(generated[: generated.index(other)])
    assert ours.generate(TEXT[0], 20) == expected
    assert ours.generate(TEXT[0], 20, regard.DecodingConfig(return_scores=True)) == expected
    assert "".join(ours.stream(TEXT[0], 20)) == expected
    assert "".join(ours.speculate(TEXT[0], 20)) == expected
    rewrite(folder, name, eos_token_id=other)  # the end token is not the one with that name
    import_model(folder, tmp_path / "renamed")
    assert regard.load_language_model(tmp_path / "renamed").generate(TEXT[0], 20) == expected


@pytest.mark.parametrize("key", ["bos_token_id", "eos_token_id", "pad_token_id"])
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_ids_outside_the_vocabulary_are_refused(
    key: str, name: str, folder: Path, tmp_path: Path, llama_folder: Path
) -> None:
    shutil.copytree(llama_folder, folder)
    for value in (-1, 10**6, 10**30, 1.0, "2", True, [], [[2]], [1, -2], {"a": 1}):
        rewrite(folder, name, **{key: value})
        with pytest.raises(RegardError, match=key):
            import_model(folder, tmp_path / "run")


def test_tokenizer_larger_than_the_embedding_is_refused(
    folder: Path, tmp_path: Path, llama_folder: Path
) -> None:
    shutil.copytree(llama_folder, folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = content["model"]["vocab"]
    last = max(vocabulary, key=vocabulary.get)
    for token in (len(vocabulary), 1 << 31):
        changed = {**vocabulary, last: token}
        content["model"]["vocab"] = changed
        (folder / "tokenizer.json").write_text(json.dumps(content))
        with pytest.raises(RegardError, match="larger than the model's vocabulary"):
            import_model(folder, tmp_path / "run")


def test_suppressed_tokens_are_imported(folder: Path, tmp_path: Path) -> None:
    tokenizer = byte_level(["<pad>", "<unk>", "<s>", "</s>"])
    saved(marian(tokenizer.get_vocab_size(), False), tokenizer, folder)
    import_model(folder, tmp_path / "free", DIRECTION)
    rows = [[*tokenizer.encode(line).ids, 3] for line in TEXT[:4]]
    token = regard.load(tmp_path / "free").translate_ids(rows)[0][0]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "bad_words_ids": [[token]]}))
    import_model(folder, tmp_path / "suppressed", DIRECTION)
    for beam in (1, 3):
        assert all(
            token not in ids
            for ids in regard.load(tmp_path / "suppressed").translate_ids(rows, beam)
        )


def test_translator_without_languages_is_refused(folder: Path, tmp_path: Path) -> None:
    tokenizer = byte_level(["<pad>", "<unk>", "<s>", "</s>"])
    saved(marian(tokenizer.get_vocab_size(), False), tokenizer, folder)
    with pytest.raises(DataError, match="--languages fr-en"):
        import_model(folder, tmp_path / "run")
