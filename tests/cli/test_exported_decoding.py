"""The exported demo in Hugging Face and CTranslate2: equal greedy output, comparable beams."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard import run_folder
from regard.data.batches.padding import pad_rows
from regard.data.bundled import generate
from regard.decoding.scoring import score
from regard.engine.torch_model import TorchModel
from regard.interchange.exports import ctranslate2, huggingface

from ..interchange import peer

TOKENS = 60
LIBRARIES = {
    "Hugging Face": (huggingface.export, "in_hugging_face.py"),
    "CTranslate2": (ctranslate2.export, "in_ctranslate2.py"),
}


@pytest.fixture(scope="module")
def translator(demo):
    return regard.load(demo.folder)


@pytest.fixture(scope="module")
def rows(translator) -> list[list[int]]:
    """Return the source ids of a thousand sentences of the grammar, in both directions."""
    pairs = list(islice(generate(987), 500))
    requests = [(pair.english, "fr") for pair in pairs] + [(pair.french, "en") for pair in pairs]
    return [translator.source_ids(text, to, "here") for text, to in requests]


def decode_exported(
    name: str, demo, folder: Path, rows: list[list[int]], beam: int
) -> list[list[int]]:
    """Export the demo and decode the rows with the other library."""
    export, program = LIBRARIES[name]
    export(run_folder.read(demo.folder), folder)
    return peer.decode_exported(program, folder, rows, TOKENS, beam)


def scores(translator, rows: list[list[int]], outputs: list[list[int]]) -> torch.Tensor:
    """Return the mean log p of the tokens of every output, computed by the model itself."""
    scored = []
    for start in range(0, len(rows), 100):
        model = TorchModel(translator.model)
        state = model.start(*pad_rows(rows[start : start + 100], translator.tokenizer.pad))
        batch = outputs[start : start + 100]
        first = np.full(len(batch), translator.tokenizer.start)
        scored += score(model, state, first, translator.tokenizer.end, batch)
    return torch.tensor([output.mean for output in scored])


@pytest.mark.parametrize("name", LIBRARIES)
def test_greedy_output_is_equal_on_a_thousand_sentences(
    demo, translator, rows, name: str, tmp_path: Path
) -> None:
    ours = translator.translate_ids(rows)
    theirs = decode_exported(name, demo, tmp_path / "exported", rows, beam=1)
    different = [i for i in range(len(rows)) if ours[i][:TOKENS] != theirs[i]]
    # If they differ, two tokens are equally likely within rounding.
    for i in different:
        our_score, their_score = scores(translator, [rows[i]] * 2, [ours[i], theirs[i]])
        assert abs(our_score - their_score) < 1e-3
    assert len(different) <= 2


@pytest.mark.parametrize("name", LIBRARIES)
def test_beam_search_output_is_at_least_as_likely(
    demo, translator, rows, name: str, tmp_path: Path
) -> None:
    ours = translator.translate_ids(rows, beam=5)
    theirs = decode_exported(name, demo, tmp_path / "exported", rows, beam=5)
    our_scores, their_scores = scores(translator, rows, ours), scores(translator, rows, theirs)
    assert our_scores.mean() >= their_scores.mean() - 1e-5
    assert ((their_scores - our_scores) > 1e-3).sum() <= 10
