"""Runs whose weights are stored in 8 bits."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.torch import load_file, save_file

import regard
from regard import run_folder
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.errors import OutputError, RunError
from regard.quantized_run import quantize
from regard.tensor_files import dequantized, map_tensors, quantized, read_tensors

from .cli.random_run import write_random_run

MATRICES = arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.integers(1, 7)),
    elements=st.floats(-1e3, 1e3, width=32),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = {"en": "the cat sleeps under the tree", "fr": "le chat dort sous l'arbre"}
    tokenizer = bpe.Spec(vocabulary=400).train([*lines.values()] * 3, ["fr", "en"])
    counts = {language: [tokenizer.encode(line)] for language, line in lines.items()}
    return write_random_run(
        tmp_path_factory.mktemp("quantized") / "run",
        "translation",
        {"kind": "encoder-decoder", "size": "tiny", "max_length": 30},
        tokenizer,
        {"directions": ["fr → en", "en → fr"], "max_length": 30},
        {"languages.json": LanguageIdentifier.learn(counts).to_json()},
    )


@given(MATRICES)
def test_each_weight_is_rounded_by_half_a_step_at_most(matrix: np.ndarray) -> None:
    steps, scale = quantized(matrix)
    rounded = dequantized(steps, scale)
    assert (np.abs(rounded - matrix) <= 0.501 * scale[:, None] + 1e-30).all()
    again = quantized(rounded)
    np.testing.assert_array_equal(dequantized(*again), rounded)


def test_a_run_is_a_quarter_as_large_and_translates(run: Path, tmp_path: Path) -> None:
    before, after = quantize(run, tmp_path / "small")
    assert after < 0.3 * before
    weights = run_folder.read(run).weights
    stored = run_folder.read(tmp_path / "small").weights
    assert stored.keys() == weights.keys()
    for name, tensor in weights.items():
        step = tensor.abs().amax(-1, keepdim=True) / 127 if tensor.ndim == 2 else torch.zeros(1)
        assert ((stored[name] - tensor).abs() <= 0.501 * step).all(), name
    text = ["The cat sleeps under the tree."]
    small = regard.load_translator(tmp_path / "small")
    with_engine = small.translate(text, to="fr")
    assert small.model is not None  # torch, from the same weights
    assert small.translate(text, to="fr") == with_engine
    with pytest.raises(OutputError):
        quantize(run, tmp_path / "small")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"w.scale": None}, "w has 8 bits and has no float32 scales"),
        ({"w.scale": torch.ones(3, dtype=torch.float64)}, "has no float32 scales"),
        ({"w.scale": torch.ones(2)}, "w has 3 rows"),
        ({"w": torch.ones(3, dtype=torch.int8)}, "w has 8 bits and is no matrix"),
    ],
)
def test_damaged_files_are_refused(change: dict[str, object], says: str, tmp_path: Path) -> None:
    tensors = {"w": torch.ones(3, 2, dtype=torch.int8), "w.scale": torch.ones(3), **change}
    path = tmp_path / "weights.safetensors"
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path)
    for read in (read_tensors, map_tensors):
        with pytest.raises(RunError, match=says):
            read(path)


def test_both_readers_return_the_same(run: Path, tmp_path: Path) -> None:
    quantize(run, tmp_path / "small")
    path = run_folder.path_of(tmp_path / "small", run_folder.WEIGHTS)
    assert any(tensor.dtype == torch.int8 for tensor in load_file(path).values())
    tensors, digest = read_tensors(path)
    mapped, checksum = map_tensors(path)
    assert checksum() == digest
    assert mapped.keys() == tensors.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(mapped[name], tensor.numpy())
