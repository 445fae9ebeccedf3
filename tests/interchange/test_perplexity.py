"""Perplexity equals Hugging Face's on the same weights and text."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard import run_folder
from regard.interchange.exports import huggingface

from .conftest import TEXT
from .test_exports import LLAMA, random_run

LONG = "\n".join(TEXT * 5)
CASES = [  # how the model is made, context, stride
    ({"position": "learned"}, 63, 32),
    ({"position": "learned"}, 40, 7),
    (LLAMA, 63, 16),
]


def test_perplexity_equals_hugging_face(tmp_path: Path) -> None:
    results, requests = [], []
    for number, (settings, context, stride) in enumerate(CASES):
        run = random_run("language-model", settings, tmp_path / f"run-{number}")
        huggingface.export(run_folder.read(run), tmp_path / f"theirs-{number}")
        language_model = regard.load(run)
        ids = language_model.tokenizer.encode(LONG)
        assert len(ids) > 5 * context
        results.append(language_model.perplexity(LONG, context, stride))
        requests.append([str(tmp_path / f"theirs-{number}"), ids, context + 1, stride])
    script = str(Path(__file__).parent / "perplexity_in_hugging_face.py")
    done = subprocess.run(
        [sys.executable, script], input=json.dumps(requests), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads(done.stdout.splitlines()[-1])
    for ours, (nats, count) in zip(results, theirs, strict=True):
        assert ours.tokens == count
        assert ours.loss == pytest.approx(nats / count, abs=1e-5)
