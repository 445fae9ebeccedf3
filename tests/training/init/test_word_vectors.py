"""Pretrained word vectors as initial rows of an embedding."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import DataError
from regard.models.base import ModelSpec
from regard.training.init.word_vectors import read_vectors, set_rows

SMALL = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 64}


def write_vectors(path: Path, header: bool) -> None:
    lines = ["chat " + " ".join(["0.5"] * 32), "chien " + " ".join(["-1"] * 32)]
    path.write_text("\n".join(([f"{len(lines)} 32"] if header else []) + lines) + "\n")


@pytest.mark.parametrize("header", [True, False], ids=["word2vec", "glove"])
@pytest.mark.parametrize("frozen", [True, False])
def test_pretrained_vectors_initialize_the_embedding(
    tmp_path: Path, header: bool, frozen: bool
) -> None:
    write_vectors(tmp_path / "v.txt", header)
    vocabulary = ["<s>", "Chat", "chien", "oiseau"]
    vectors = read_vectors(tmp_path / "v.txt", ["chat", "chien", "oiseau"], 32)
    model = ModelSpec.model_validate({"kind": "encoder", **SMALL, "position": "none"}).build(4)
    report = set_rows(model.embedding, vocabulary, vectors, frozen)
    assert (report.covered, report.missing) == (2, 2)
    model.eval()
    assert torch.allclose(model.embedding(torch.tensor([[1]])), torch.full((1, 1, 32), 0.5))
    model(torch.arange(4)[None]).square().sum().backward()
    gradient = model.embedding.tokens.weight.grad
    moved = [bool(row.any()) for row in gradient]
    assert moved == ([True, False, False, True] if frozen else [True] * 4)


def test_vectors_of_another_size_are_refused(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.txt", header=True)
    with pytest.raises(DataError, match=r"v\.txt, line 2: 32 numbers .* size is 16"):
        read_vectors(tmp_path / "v.txt", ["chat"], 16)
    (tmp_path / "v.txt").write_text("chat " + "x " * 16)
    with pytest.raises(DataError, match="line 1: not numbers"):
        read_vectors(tmp_path / "v.txt", ["chat"], 16)


def test_vectors_are_read_as_float32(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.txt", header=False)
    assert read_vectors(tmp_path / "v.txt", ["chien"], 32)["chien"].dtype == np.float32


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("chat 1 nan\n", "line 1: 'nan' is not a finite number"),
        ("chien 1 2\nchat -inf 2\n", "line 2: '-inf' is not a finite number"),
        ("chat 1e999 2\n", "line 1: '1e999' is not a finite number"),
        ("chat 1 1e39\n", "line 1: '1e39' is not a finite number"),
        ("chat 1 two\n", "line 1: not numbers"),
        ("chat\n", "line 1: 0 numbers after the word"),
        ("chat 1 2\n\nchien 1 2\n", "line 2: 0 numbers after the word"),
        ("chat 1 2 3\n", "line 1: 3 numbers after the word"),
        ("chat " + "1 " * 10**6 + "\n", "line 1: 1000000 numbers after the word"),
        ("5 2\nchat 1 2\n", "says 5 words, and there is 1"),
        ("1 2\nchat 1 2\nchien 1 2\n", "says 1 word, and there are 2"),
        ("1 7\nchat 1 2\n", "line 1: the header says 7 numbers for each word, and line 2 has 2"),
        ("x y\n", "line 1: 1 numbers after the word"),
        ("9" * 5000 + " 2\nchat 1 2\n", "line 1: 1 numbers after the word"),
        ("", "there is no vector in it"),
    ],
)
def test_odd_vector_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(content)
    with pytest.raises(DataError, match=f"v.txt.*{message}"):
        read_vectors(tmp_path / "v.txt", ["chat", "chien"], 2)


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    for content in (b"3 2\nchat \x00\x80\xff\x00", b"\xff\xfe 1 2\n", b"c\xff 1 2\n"):
        (tmp_path / "v.bin").write_bytes(content)
        with pytest.raises(DataError, match=r"v\.bin"):
            read_vectors(tmp_path / "v.bin", ["chat"], 2)
    with pytest.raises(DataError, match=r"missing: cannot be read"):
        read_vectors(tmp_path / "missing", ["chat"], 2)


def test_compressed_vectors_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    (tmp_path / "v.gz").write_bytes(gzip.compress("\ufeffchat 1 2\r\nchien 3 4".encode()))
    vectors = read_vectors(tmp_path / "v.gz", ["chat", "chien"], 2)
    assert {word: row.tolist() for word, row in vectors.items()} == {
        "chat": [1, 2],
        "chien": [3, 4],
    }
