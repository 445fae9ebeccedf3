"""regard export: classifiers and masked models compute the same in Hugging Face and ONNX Runtime.

Exported tokenizers make the inputs that Regard makes, with or without a space after a language tag.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import regard
from regard.data.tokenizers import bpe, byte

from .conftest import EN, FR
from .random_run import write_random_run

SIZES = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "max_length": 64}
BERT = {
    "position": "learned",
    "norm_first": False,
    "embedding_norm": True,
    "scale_embedding": False,
    "feed_forward": {"kind": "dense", "activation": "gelu"},
}
LABELS = ["good", "bad", "neither"]
IN_ONNXRUNTIME = """
import json, sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
inputs = json.load(sys.stdin)
outputs = session.run(None, {name: numpy.array(value) for name, value in inputs.items()})
print(json.dumps(outputs[0].tolist()))
"""


def classifier(folder: Path, several: bool = False, texts: int = 1, **settings: Any) -> Path:
    return write_random_run(
        folder,
        "classification",
        {"kind": "classifier", **SIZES, "classes": 3, **settings},
        bpe.Spec(vocabulary=400).train([EN, FR]),
        {
            "labels": LABELS,
            "max_length": 64,
            "num_texts": texts,
            "temperature": 1.7,
            "label_format": {"separator": "," if several else None, "none": None},
        },
    )


def masked_lm(folder: Path, **settings: Any) -> Path:
    tokenizer = bpe.Spec(vocabulary=400).train([EN, FR], ["mask"])
    model = {"kind": "masked-lm", **SIZES, **settings}
    return write_random_run(folder, "masked-lm", model, tokenizer, {"max_length": 64})


def exported(call, run: Path, to: str) -> Path:
    done = call("export", run, "--to", to)
    assert done.code == 0, done.err
    return run / to


def padded(rows: list[list[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    return ids, torch.arange(longest) < torch.tensor([[len(row)] for row in rows])


def in_onnxruntime(folder: Path, ids: torch.Tensor, token_mask: torch.Tensor) -> torch.Tensor:
    inputs = {"input_ids": ids.tolist(), "attention_mask": token_mask.long().tolist()}
    command = [sys.executable, "-c", IN_ONNXRUNTIME, str(folder / "model.onnx")]
    done = subprocess.run(command, input=json.dumps(inputs), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return torch.tensor(json.loads(done.stdout))


@pytest.mark.parametrize("settings", [{}, BERT], ids=["pre-norm", "post-norm"])
@pytest.mark.parametrize("several", [False, True])
def test_classifier_equals_in_hugging_face(
    call, tmp_path: Path, settings: dict[str, Any], several: bool
) -> None:
    run = classifier(tmp_path / "run", several, pooling="first", **settings)
    folder = exported(call, run, "huggingface")
    model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.config.id2label == dict(enumerate(LABELS))
    ours = regard.load_classifier(run)
    encode = transformers.AutoTokenizer.from_pretrained(folder)
    rows = [encode(text)["input_ids"] for text in (EN, FR)]
    assert rows == [ours.encode(text) for text in (EN, FR)]
    ids, token_mask = padded(rows, ours.tokenizer.pad)
    with torch.inference_mode():
        logits = model.eval()(ids, attention_mask=token_mask.long()).logits
        expected = ours.calibrate(ours.model(ids, token_mask))
    activated = logits.sigmoid() if several else logits.softmax(-1)
    torch.testing.assert_close(activated, expected.exp(), atol=1e-4, rtol=1e-4)


def test_pooling_without_an_equivalent_is_refused_by_its_key(call, tmp_path: Path) -> None:
    done = call("export", classifier(tmp_path / "run"), "--to", "huggingface")
    assert done.code == 1
    assert "model.pooling: mean has no equivalent in Megatron-BERT (ONNX has one)" in done.err


@pytest.mark.parametrize("settings", [{}, BERT, {**BERT, "transform": "gelu"}])
def test_masked_lm_equals_in_hugging_face(call, tmp_path: Path, settings: dict[str, Any]) -> None:
    run = masked_lm(tmp_path / "run", **settings)
    folder = exported(call, run, "huggingface")
    model, report = transformers.AutoModelForMaskedLM.from_pretrained(
        folder, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    ours = regard.load_mask_filler(run)
    encode = transformers.AutoTokenizer.from_pretrained(folder)
    text = "The animal <mask> the street."
    assert encode(text)["input_ids"] == ours.encode(text.replace("<mask>", "[MASK]"))
    ids, token_mask = padded([encode(text)["input_ids"], ours.encode(FR)], ours.tokenizer.pad)
    with torch.inference_mode():
        logits = model.eval()(ids, attention_mask=token_mask.long()).logits
        expected = ours.model(ids, token_mask)
    torch.testing.assert_close(logits[token_mask], expected[token_mask], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_classifier_equals_in_onnxruntime(call, tmp_path: Path, pooling: str) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    run = classifier(tmp_path / "run", pooling=pooling)
    folder = exported(call, run, "onnx")
    ours = regard.load_classifier(run)
    ids, token_mask = padded([ours.encode(EN), ours.encode(FR)], ours.tokenizer.pad)
    with torch.inference_mode():
        expected = ours.calibrate(ours.model(ids, token_mask))
    logits = in_onnxruntime(folder, ids, token_mask)
    torch.testing.assert_close(logits.log_softmax(-1), expected, atol=1e-4, rtol=1e-4)
    assert json.loads((folder / "config.json").read_text())["id2label"]["2"] == "neither"


def test_masked_lm_equals_in_onnxruntime(call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    run = masked_lm(tmp_path / "run")
    folder = exported(call, run, "onnx")
    ours = regard.load_mask_filler(run)
    ids, token_mask = padded([ours.encode(EN), ours.encode("a [MASK] b")], ours.tokenizer.pad)
    with torch.inference_mode():
        expected = ours.model(ids, token_mask)
    logits = in_onnxruntime(folder, ids, token_mask)
    torch.testing.assert_close(logits[token_mask], expected[token_mask], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", [bpe.Spec(vocabulary=400), byte.Spec()], ids=["bpe", "byte"])
def test_exported_tokenizer_takes_a_language_tag_with_or_without_a_space(
    call, translator: Path, tmp_path: Path, kind: Any
) -> None:
    model = json.loads((translator / "model.json").read_text())
    run = write_random_run(
        tmp_path / "run",
        "translation",
        model["model"],
        kind.train([EN, FR], ["en", "fr"]),
        model["details"],
        {"languages.json": regard.load_translator(translator).language_identifier.to_json()},
    )
    encode = transformers.AutoTokenizer.from_pretrained(exported(call, run, "huggingface"))
    expected = regard.load_translator(run).source_ids("The street.", "fr", "line 1")
    for text in ("<fr>The street.", "<fr> The street."):
        assert encode(text)["input_ids"] == expected
