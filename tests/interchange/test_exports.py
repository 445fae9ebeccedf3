"""Exported models decode the same tokens in Hugging Face, CTranslate2 and ONNX Runtime."""

import random
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import run_folder
from regard.config import plain
from regard.data.config import Direction
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.errors import ConfigError
from regard.interchange.exports import ctranslate2, huggingface, onnx
from regard.interchange.importing import import_model
from regard.models.base import ModelSpec
from regard.models.weights import weights_of

from .conftest import TEXT
from .peer import decode_exported

SIZES = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 64}
LLAMA = {
    "position": {"kind": "rotary", "pairs": "halves"},
    "norm": "rms",
    "feed_forward": "gated",
    "bias": False,
    "scale_embedding": False,
    "kv_heads": 2,
}
TRANSLATORS = {
    "norms first": {},
    "norms last": {"norm_first": False, "decoder_layers": 3},
    "gelu, an output bias": {
        "feed_forward": {"kind": "dense", "activation": "gelu"},
        "output_bias": True,
    },
}
ELSEWHERE = {  # of CTranslate2 and ONNX only
    "learned, rms, gated": {"position": "learned", "norm": "rms", "feed_forward": "gated"},
    "rotary": {"position": "rotary", "tie_embeddings": "none"},
}
WRITERS = {
    "sinusoids": {},
    "learned": {"position": "learned", "tie_embeddings": False},
    "llama": LLAMA,
}


def random_run(kind: str, settings: dict[str, Any], folder: Path) -> Path:
    """A run folder with random weights."""
    torch.manual_seed(2)
    tokenizer = bpe.Spec(vocabulary=400).train(TEXT)
    spec = ModelSpec.model_validate({"kind": kind, **SIZES, **settings})
    model = spec.build(len(tokenizer))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    translation = kind == "encoder-decoder"
    details: dict[str, Any] = {"max_length": spec.max_length}
    if translation:
        details["directions"] = ["fr → en"]
    run = run_folder.Run(
        task="translation" if translation else "language-model",
        model=plain(spec),
        vocabulary=len(tokenizer),
        details=details,
        weights=weights_of(model),
        tokenizer=tokenizer.to_json(),
        extra_files={"languages.json": LanguageIdentifier({"fr": {}, "en": {}}).to_json()}
        if translation
        else {},
        documents={},
    )
    run_folder.write(run, folder)
    return folder


def compare(export: Any, program: str, kind: str, settings: dict[str, Any], home: Path) -> None:
    run = random_run(kind, settings, home / "run")
    export(run_folder.read(run), home / "theirs")
    ours = regard.load(run)
    tokens = 20
    if kind == "encoder-decoder":
        rows = [[*ours.tokenizer.encode(line), ours.tokenizer.end] for line in TEXT[:4]]
        expected = [ids[:tokens] for ids in ours.translate_ids(rows)]
    else:
        rows = [ours.tokenizer.encode(line)[:6] for line in TEXT[:4]]
        hypotheses = [ours.search([row], tokens)[0][0].ids for row in rows]
        expected = [ids[:tokens] for ids in hypotheses]
    assert decode_exported(program, home / "theirs", rows, tokens) == expected


@pytest.mark.parametrize("settings", TRANSLATORS.values(), ids=TRANSLATORS.keys())
def test_exported_translators_equal_in_hugging_face(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    compare(huggingface.export, "in_hugging_face.py", "encoder-decoder", settings, tmp_path)


@pytest.mark.parametrize("settings", WRITERS.values(), ids=WRITERS.keys())
def test_exported_language_models_equal_in_hugging_face(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    compare(huggingface.export, "in_hugging_face.py", "language-model", settings, tmp_path)


ALL = {**TRANSLATORS, **ELSEWHERE}


@pytest.mark.parametrize("settings", ALL.values(), ids=ALL.keys())
def test_exported_translators_equal_in_ctranslate2(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    compare(ctranslate2.export, "in_ctranslate2.py", "encoder-decoder", settings, tmp_path)


@pytest.mark.parametrize("settings", WRITERS.values(), ids=WRITERS.keys())
def test_exported_language_models_equal_in_ctranslate2(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    compare(ctranslate2.export, "in_ctranslate2.py", "language-model", settings, tmp_path)


@pytest.mark.parametrize(
    ("kind", "position"),
    [("encoder-decoder", "rotary"), ("encoder-decoder", "relative"), ("language-model", "rotary")],
)
def test_exported_models_equal_in_onnxruntime(kind: str, position: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    stack = "encoder" if kind == "encoder-decoder" else "decoder"
    fewer = {f"{stack}.blocks.1.attention": [0, 3]}  # a model whose other heads were pruned
    settings = {"position": position, "retained_heads": fewer}
    compare(onnx.export, "in_onnxruntime.py", kind, settings, tmp_path)


@pytest.mark.parametrize("export", [huggingface.export, ctranslate2.export])
def test_settings_without_equivalent_are_refused(export: Any, tmp_path: Path) -> None:
    run = random_run("encoder-decoder", {"position": "relative"}, tmp_path / "run")
    with pytest.raises(ConfigError, match="relative has no equivalent"):
        export(run_folder.read(run), tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize("export", [huggingface.export, ctranslate2.export, onnx.export])
@pytest.mark.parametrize("kind", ["encoder-decoder", "language-model"])
def test_experts_are_refused(export: Any, kind: str, tmp_path: Path) -> None:
    mixture = {"feed_forward": {"kind": "moe", "num_experts": 3}}
    run = random_run(kind, mixture, tmp_path / "run")
    with pytest.raises(ConfigError, match="moe has no equivalent"):
        export(run_folder.read(run), tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize("export", [huggingface.export, ctranslate2.export, onnx.export])
def test_sparse_encoder_attention_is_refused(export: Any, tmp_path: Path) -> None:
    run = random_run("encoder-decoder", {"encoder_attention": "window"}, tmp_path / "run")
    with pytest.raises(ConfigError, match="attention window has no equivalent"):
        export(run_folder.read(run), tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def drawn_settings(draw: random.Random, kind: str) -> dict[str, Any]:
    """Random settings of a model; most exports of them are possible, some are refused."""
    seq2seq = kind == "encoder-decoder"
    llama = not seq2seq and draw.random() < 0.6
    settings: dict[str, Any] = {
        "norm_first": llama or draw.random() < 0.6,
        "embedding_norm": draw.random() < 0.1,
        "output_bias": seq2seq and draw.random() < 0.5,
        "tie_embeddings": draw.choice(["all"] * 9 + ["none"] if seq2seq else [True, False]),
        "feed_forward": {
            "kind": "gated" if llama else "dense",
            "activation": draw.choice(["relu", "gelu", "gelu-tanh", "silu"]),
            "bias": draw.random() < 0.95,
        },
        "scale_embedding": not llama and draw.random() < 0.5,
        "bias": draw.random() < 0.95,
        "head_dim": draw.choice([None, None, None, 8, 6]) if llama else None,
        "kv_heads": draw.choice([None, 4, 2]) if llama else None,
        "norm": "rms" if llama else {"kind": "layer", "eps": draw.choice([1e-5, 1e-5, 1e-3])},
        "position": draw.choice(
            ["sinusoidal", {"kind": "sinusoidal", "layout": "halves"}]
            + ([] if seq2seq else ["learned"])
        ),
    }
    if llama:
        scaling = draw.choice([None, {"factor": 2.0}, {"factor": 4.0, "context": 20}])
        settings["position"] = {"kind": "rotary", "pairs": "halves", "scaling": scaling}
    if draw.random() < 0.1:
        settings["retained_heads"] = {
            f"{'encoder' if seq2seq else 'decoder'}.blocks.0.attention": [1]
        }
        settings["kv_heads"] = None
    return settings


@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
def test_exports_are_imported_as_the_same_model(kind: str, tmp_path: Path) -> None:
    """Export refuses what the other library has no equivalent of, and writes the rest exactly."""
    exported = refused = 0
    for seed in range(14):
        settings = drawn_settings(random.Random(f"{kind} {seed}"), kind)
        run, theirs = random_run(kind, settings, tmp_path / f"{seed}"), tmp_path / f"{seed}-theirs"
        try:
            huggingface.export(run_folder.read(run), theirs)
        except ConfigError:
            refused += 1
            assert not theirs.exists()
            continue
        exported += 1
        back = tmp_path / f"{seed}-back"
        import_model(theirs, back, Direction("fr", "en"), verify=exported <= 3)
        ids = torch.randint(5, 100, (2, 40))
        inputs = (ids, torch.ones_like(ids).bool(), ids) if kind == "encoder-decoder" else (ids,)
        with torch.inference_mode():
            ours, again = (regard.load(folder).model(*inputs) for folder in (run, back))
        torch.testing.assert_close(again, ours, atol=1e-4, rtol=1e-4, msg=f"{seed}: {settings}")
    assert min(exported, refused) > 1


def test_special_tokens_survive_export(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**LLAMA, "position": {"kind": "rotary", "pairs": "halves",
                                "scaling": {"factor": 2.0}}}  # fmt: skip
    run = run_folder.read(random_run("language-model", settings, tmp_path / "run"))
    details = {**run.details, "end": 9, "other_ends": [8, 7], "bos": [6]}
    huggingface.export(replace(run, details=details), tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "back")
    back = regard.load_language_model(tmp_path / "back")
    assert {back.tokenizer.end, *back.other_ends} == {7, 8, 9}
    assert back.bos == [6]
    with pytest.raises(ConfigError, match="several end tokens"):
        ctranslate2.export(replace(run, details=details), tmp_path / "other")
    with pytest.raises(ConfigError, match="rotary with scaling"):
        ctranslate2.export(run, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_suppressed_tokens_survive_export(tmp_path: Path) -> None:
    run = run_folder.read(random_run("encoder-decoder", {"norm_first": False}, tmp_path / "run"))
    run = replace(run, details={**run.details, "suppressed_tokens": [5, 11]})
    huggingface.export(run, tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "back", Direction("fr", "en"))
    assert run_folder.read(tmp_path / "back").details["suppressed_tokens"] == [5, 11]
    ctranslate2.export(run, tmp_path / "other")
    written = (tmp_path / "other" / "model.bin").read_bytes()
    assert written.count(struct.pack("<f", ctranslate2.NEVER)) == 2


def test_export_and_import_round_trip(tmp_path: Path) -> None:
    run = random_run("encoder-decoder", {"norm_first": False}, tmp_path / "run")
    huggingface.export(run_folder.read(run), tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "back", Direction("fr", "en"))
    lines = TEXT[:4]
    assert regard.load(tmp_path / "back").translate(lines) == regard.load(run).translate(lines)
