"""regard embed: vectors as text, JSON and files; cosine similarities."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import regard
from regard import run_folder
from regard.data.tokenizers import bpe
from regard.data.tokenizers.tokenizer import Tokenizer

from .random_run import write_random_run

LINES = ["A dog runs over the grass.", "Two men sit on a bench.", "A dog runs over the trees."]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run folder of an encoder with random weights."""
    sizes = {"dim": 16, "heads": 2, "ffn_dim": 32, "layers": 1, "dropout": 0.0, "max_length": 40}
    return write_random_run(
        tmp_path_factory.mktemp("encoder") / "run",
        "encoder",
        {"kind": "encoder", **sizes},
        bpe.Spec(vocabulary=300).train(LINES * 4),
        {"max_length": 40},
        seed=2,
    )


@pytest.fixture
def text() -> bytes:
    return "\n".join(LINES).encode() + b"\n"


def test_vectors_as_text_json_and_files(call, run: Path, text: bytes, tmp_path: Path) -> None:
    expected = regard.load(run).embed(LINES).numpy()
    result = call("embed", run, stdin=text)
    vectors = np.array([[float(n) for n in line.split()] for line in result.out.splitlines()])
    assert (result.code, vectors.shape) == (0, (3, 16))
    assert np.allclose(vectors, expected, atol=1e-5)
    rows = [json.loads(line) for line in call("embed", run, "--json", stdin=text).out.splitlines()]
    assert [row["text"] for row in rows] == LINES
    assert np.array_equal(np.array([row["vector"] for row in rows], dtype=np.float32), expected)
    for name in ("vectors.npy", "vectors.safetensors"):
        result = call("embed", run, "-o", tmp_path / name, stdin=text)
        assert (result.code, result.out) == (0, "")
        assert "3 vectors of 16 numbers" in result.err
    assert np.array_equal(np.load(tmp_path / "vectors.npy"), expected)
    assert np.array_equal(load_file(tmp_path / "vectors.safetensors")["vectors"].numpy(), expected)


def test_compare_prints_cosine_similarities(call, run: Path, text: bytes) -> None:
    vectors = regard.load(run).embed(LINES)
    result = call("embed", run, "--compare", stdin=text)
    for number, line in enumerate(result.out.splitlines()):
        first, *cosines, text_out = line.split("\t")
        assert (first, text_out) == (str(number + 1), LINES[number])
        assert np.allclose([float(n) for n in cosines], vectors @ vectors[number], atol=1e-4)
    many = [f"{'A' if i % 2 else 'Two'} dog {'runs ' * (i % 7)}{i}." for i in range(40)]
    many[31] = many[4]
    result = call("embed", run, "--compare", stdin="\n".join(many).encode())
    pairs = [line.split("\t") for line in result.out.splitlines()]
    assert pairs[0] == ["1.0000", "5", "32", many[4], many[4]]
    table = torch.triu(_cosines(regard.load(run).embed(many)), 1)
    best = table.flatten().topk(20).values.tolist()
    assert [float(pair[0]) for pair in pairs] == pytest.approx(best, abs=1e-4)


def _cosines(vectors: torch.Tensor) -> torch.Tensor:
    return vectors @ vectors.T


def test_errors_are_one_sentence(call, run: Path, text: bytes, tmp_path: Path) -> None:
    for arguments, stdin, message in (
        (["--json", "--compare"], text, "give one"),
        (["-o", tmp_path / "vectors.txt"], text, "must end with .npy or .safetensors"),
        (["-o", tmp_path / "nowhere" / "v.npy"], text, "cannot be written"),
        ([], b"", "no text in it"),
        (["--compare"], b"one", "nothing to compare it with"),
        ([], b"one\n\nthree\n", "text 2 is empty"),
        ([], b"one\n" + b"dog " * 60, "text 2 has"),
        ([tmp_path / "none.txt"], b"", "cannot be read"),
    ):
        result = call("embed", run, *arguments, stdin=stdin)
        assert (result.code, result.out) == (1, ""), arguments
        assert message in result.err
        assert result.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_language_model_is_refused(call, run: Path, tmp_path: Path) -> None:
    other = write_random_run(
        tmp_path / "language-model",
        "language-model",
        {"kind": "language-model", "size": "tiny"},
        Tokenizer.from_json(run_folder.read(run).tokenizer),
        {"max_length": 40},
    )
    result = call("embed", other, stdin=b"A dog")
    assert result.code == 1
    assert "holds a language model, not an encoder" in result.err
