"""Pretrained word vectors as initial rows of an embedding."""

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
