"""regard embed as a user calls it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import regard
from regard import run_folder
from regard.config import plain
from regard.data.tokenizers import bpe
from regard.models.base import ModelSpec
from regard.models.weights import weights_of

LINES = ["A dog runs over the grass.", "Two men sit on a bench.", "A dog runs over the trees."]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder with weights of chance."""
    torch.manual_seed(2)
    tokenizer = bpe.Spec(vocabulary=300).train(LINES * 4)
    sizes = {"dim": 16, "heads": 2, "ffn_dim": 32, "layers": 1, "dropout": 0.0, "max_length": 40}
    spec = ModelSpec.model_validate({"kind": "encoder", **sizes})
    model = spec.build(len(tokenizer))
    folder = tmp_path_factory.mktemp("encoder") / "run"
    run_folder.write(
        run_folder.Run(
            task="encoder", model=plain(spec), vocabulary=len(tokenizer),
            details={"max_length": 40}, weights=weights_of(model), tokenizer=tokenizer.to_json(),
            extra_files={}, documents={},
        ),
        folder,
    )  # fmt: skip
    return folder


@pytest.fixture
def text() -> bytes:
    return "\n".join(LINES).encode() + b"\n"


def test_vectors_as_numbers_json_and_files(call, run: Path, text: bytes, tmp_path: Path) -> None:
    wanted = regard.load(run).embed(LINES).numpy()
    answer = call("embed", run, stdin=text)
    found = np.array([[float(n) for n in line.split()] for line in answer.out.splitlines()])
    assert (answer.code, found.shape) == (0, (3, 16))
    assert np.allclose(found, wanted, atol=1e-5)
    rows = [json.loads(line) for line in call("embed", run, "--json", stdin=text).out.splitlines()]
    assert [row["text"] for row in rows] == LINES
    assert np.array_equal(np.array([row["vector"] for row in rows], dtype=np.float32), wanted)
    for name in ("vectors.npy", "vectors.safetensors"):
        answer = call("embed", run, "-o", tmp_path / name, stdin=text)
        assert (answer.code, answer.out) == (0, "")
        assert "3 vectors of 16 numbers" in answer.err
    assert np.array_equal(np.load(tmp_path / "vectors.npy"), wanted)
    assert np.array_equal(load_file(tmp_path / "vectors.safetensors")["vectors"].numpy(), wanted)


def test_what_is_alike(call, run: Path, text: bytes) -> None:
    vectors = regard.load(run).embed(LINES)
    answer = call("embed", run, "--compare", stdin=text)
    for number, line in enumerate(answer.out.splitlines()):
        first, *cosines, said = line.split("\t")
        assert (first, said) == (str(number + 1), LINES[number])
        assert np.allclose([float(n) for n in cosines], vectors @ vectors[number], atol=1e-4)
    many = [f"{'A' if i % 2 else 'Two'} dog {'runs ' * (i % 7)}{i}." for i in range(40)]
    many[31] = many[4]
    answer = call("embed", run, "--compare", stdin="\n".join(many).encode())
    pairs = [line.split("\t") for line in answer.out.splitlines()]
    assert pairs[0] == ["1.0000", "5", "32", many[4], many[4]]
    table = torch.triu(_cosines(regard.load(run).embed(many)), 1)
    best = table.flatten().topk(20).values.tolist()
    assert [float(pair[0]) for pair in pairs] == pytest.approx(best, abs=1e-4)


def _cosines(vectors: torch.Tensor) -> torch.Tensor:
    return vectors @ vectors.T


def test_bad_input_is_one_sentence(call, run: Path, text: bytes, tmp_path: Path) -> None:
    for arguments, stdin, said in (
        (["--json", "--compare"], text, "give one"),
        (["-o", tmp_path / "vectors.txt"], text, "must end with .npy or .safetensors"),
        (["-o", tmp_path / "nowhere" / "v.npy"], text, "cannot be written"),
        ([], b"", "no text in it"),
        (["--compare"], b"one", "nothing to compare it with"),
        ([], b"one\n\nthree\n", "text 2 is empty"),
        ([], b"one\n" + b"dog " * 60, "text 2 has"),
        ([tmp_path / "none.txt"], b"", "cannot be read"),
    ):
        answer = call("embed", run, *arguments, stdin=stdin)
        assert (answer.code, answer.out) == (1, ""), arguments
        assert said in answer.err
        assert answer.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_model_that_gives_no_vectors_is_refused(call, run: Path, tmp_path: Path) -> None:
    found = run_folder.read(run)
    spec = ModelSpec.model_validate({"kind": "language-model", "size": "tiny"})
    weights = weights_of(spec.build(found.vocabulary))
    other = run_folder.Run(
        task="language-model", model=plain(spec), vocabulary=found.vocabulary,
        details={"max_length": 40}, weights=weights, tokenizer=found.tokenizer,
        extra_files={}, documents={},
    )  # fmt: skip
    run_folder.write(other, tmp_path / "writer")
    answer = call("embed", tmp_path / "writer", stdin=b"A dog")
    assert answer.code == 1
    assert "holds a language model, not an encoder" in answer.err
