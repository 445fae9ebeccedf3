"""The public names of `regard`: a fixed list, imported on first use."""

import os
import subprocess
import sys

import pytest

import regard


def test_public_names_are_pinned() -> None:
    assert regard.__all__ == [
        "Classifier",
        "DecodingConfig",
        "Embedder",
        "Filling",
        "MaskFiller",
        "ModelSpec",
        "Prediction",
        "Predictor",
        "Recipe",
        "RegardError",
        "Sampling",
        "Score",
        "SpanFiller",
        "Summarizer",
        "Summary",
        "TextGenerator",
        "Translation",
        "Translator",
        "ZeroShotClassifier",
        "load",
        "load_classifier",
        "load_embedder",
        "load_language_model",
        "load_mask_filler",
        "load_span_filler",
        "load_summarizer",
        "load_translator",
        "read_recipe",
        "resume",
        "train",
        "watch",
    ]
    for name in regard.__all__:
        assert getattr(regard, name) is not None
    assert set(regard.__all__) <= set(dir(regard))
    assert not hasattr(regard, "nothing")


def test_import_and_help_do_not_import_torch() -> None:
    code = (
        "import sys, regard, regard.cli;"
        "assert not {'torch', 'numpy', 'tokenizers'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("environment", "spin_count"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_openmp_spin_count_has_a_default(environment: dict[str, str], spin_count: str) -> None:
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    others = {name: value for name, value in os.environ.items() if name not in names}
    code = "import os, regard; print(os.environ.get('GOMP_SPINCOUNT'))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=others | environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == spin_count
