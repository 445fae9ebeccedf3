"""Import and export of BERT and RoBERTa with their masked-language-model head."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import regard
from regard import run_folder
from regard.config import plain
from regard.data.tokenizers import bpe
from regard.engine.library import library
from regard.errors import ConfigError
from regard.interchange.exports import huggingface
from regard.interchange.importing import import_model
from regard.models.base import ModelSpec
from regard.models.weights import weights_of

from .conftest import TEXT, byte_level, randomized, saved, word_pieces

BLANKS = "A [MASK] runs over the [MASK] near 12 trees."
SIZES = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 64}
BERT = {
    "position": "learned",
    "norm_first": False,
    "embedding_norm": True,
    "scale_embedding": False,
    "feed_forward": {"kind": "dense", "activation": "gelu"},
    "transform": "gelu",
}


def with_head(vocabulary: int, kind: str, **more: Any) -> Any:
    config = (transformers.RobertaConfig if kind == "roberta" else transformers.BertConfig)(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=66, type_vocab_size=2, pad_token_id=1,
        **more,
    )  # fmt: skip
    model = {
        "bert": transformers.BertForMaskedLM,
        "pretraining": transformers.BertForPreTraining,
        "roberta": transformers.RobertaForMaskedLM,
    }[kind]
    return randomized(model(config))


def hugging_face_probabilities(model: Any, filler: Any, text: str) -> torch.Tensor:
    """Return Hugging Face's probabilities at every mask token."""
    ids = torch.tensor([filler.encode(text)])
    with torch.inference_mode():
        output = model(ids)
    logits = getattr(output, "logits", None)
    logits = output.prediction_logits if logits is None else logits
    return logits[ids == filler.mask].softmax(-1)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("bert", {}),
        ("bert", {"tie_word_embeddings": False, "hidden_act": "relu"}),
        ("pretraining", {}),
        ("roberta", {}),
    ],
)
def test_imported_masked_lm_equals_hugging_face(
    kind: str, more: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = byte_level(special) if kind == "roberta" else word_pieces()
    model = with_head(tokenizer.get_vocab_size(), kind, **more)
    import_model(saved(model, tokenizer, folder), tmp_path / "run")
    assert run_folder.read(tmp_path / "run").task == "masked-lm"
    filler = regard.load(tmp_path / "run")
    assert filler.engine_model.uses_engine == (library() is not None)
    expected = hugging_face_probabilities(model, filler, BLANKS)
    pieces = filler.tokenizer.vocabulary()
    for blank, probabilities in zip(filler.fill(BLANKS, top=1000), expected, strict=True):
        tokens = [
            token for token in range(len(pieces)) if token not in filler.tokenizer.special_ids
        ]
        ranked = sorted(probabilities[tokens].tolist(), reverse=True)
        assert [filling.probability for filling in blank] == pytest.approx(ranked, abs=1e-4)
        best = max(tokens, key=lambda token: float(probabilities[token]))
        assert blank[0].text.removeprefix("…") == filler.tokenizer.pieces([best])[0].removeprefix(
            "##"
        )


def random_run(folder: Path, **settings: Any) -> Path:
    torch.manual_seed(2)
    tokenizer = bpe.Spec(vocabulary=400).train(TEXT, ["mask"])
    spec = ModelSpec.model_validate({"kind": "masked-lm", **SIZES, **settings})
    model = randomized(spec.build(len(tokenizer)))
    run = run_folder.Run(
        task="masked-lm",
        model=plain(spec),
        vocabulary=len(tokenizer),
        details={"max_length": 64},
        weights=weights_of(model),
        tokenizer=tokenizer.to_json(),
        extra_files={},
        documents={},
    )
    run_folder.write(run, folder)
    return folder


@pytest.mark.parametrize("tie_embeddings", [True, False])
def test_exported_masked_lm_equals_hugging_face_and_round_trips(
    tie_embeddings: bool, tmp_path: Path
) -> None:
    run = random_run(tmp_path / "run", **BERT, tie_embeddings=tie_embeddings)
    huggingface.export(run_folder.read(run), tmp_path / "theirs")
    model, report = transformers.BertForMaskedLM.from_pretrained(
        tmp_path / "theirs", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    filler = regard.load(run)
    expected = hugging_face_probabilities(model.eval(), filler, BLANKS)
    for blank, probabilities in zip(filler.fill(BLANKS, top=3), expected, strict=True):
        probabilities[sorted(filler.tokenizer.special_ids)] = 0
        best = probabilities.topk(3).values.tolist()
        assert [filling.probability for filling in blank] == pytest.approx(best, abs=1e-4)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    assert theirs.mask_token_id == filler.mask
    import_model(tmp_path / "theirs", tmp_path / "imported")
    reloaded = regard.load(tmp_path / "imported")
    for ours, imported in zip(filler.fill(BLANKS), reloaded.fill(BLANKS), strict=True):
        assert [filling.text for filling in ours] == [filling.text for filling in imported]
        probabilities = [filling.probability for filling in ours]
        assert [filling.probability for filling in imported] == pytest.approx(
            probabilities, abs=1e-5
        )


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"norm_first": True}, "model.embedding_norm: True has no equivalent in Megatron-BERT"),
        ({"embedding_norm": False}, "model.embedding_norm: False has no equivalent in BERT"),
        ({"position": "rotary"}, "model.position: rotary"),
        ({"transform": "relu"}, "model.transform: relu"),
    ],
)
def test_settings_that_bert_lacks_are_refused(
    settings: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    run = random_run(tmp_path / "run", **{**BERT, **settings})
    with pytest.raises(ConfigError, match=complaint):
        huggingface.export(run_folder.read(run), tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_mask_token_is_found_in_a_plain_vocabulary(folder: Path, tmp_path: Path) -> None:
    """An older folder: vocab.txt, and no list of special tokens."""
    tokenizer = word_pieces()
    saved(with_head(tokenizer.get_vocab_size(), "bert"), None, folder)
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    import_model(folder, tmp_path / "run")
    filler = regard.load(tmp_path / "run")
    assert filler.mask in filler.tokenizer.special_ids
    assert len(filler.fill(BLANKS)) == 2
