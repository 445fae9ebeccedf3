"""The demo's model in Hugging Face and CTranslate2: the same words, and no better ones."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
import torch

import regard
from regard import run_folder
from regard.data.batches.base import pad
from regard.data.bundled import generate
from regard.decoding.scoring import score
from regard.interchange.exports import ctranslate2, huggingface

PROGRAMS = Path(__file__).parent.parent / "interchange"
TOKENS = 60
OTHERS = {
    "Hugging Face": (huggingface.export, "in_hugging_face.py"),
    "CTranslate2": (ctranslate2.export, "in_ctranslate2.py"),
}


@pytest.fixture(scope="module")
def translator(demo):
    return regard.load(demo.folder)


@pytest.fixture(scope="module")
def rows(translator) -> list[list[int]]:
    """A thousand sentences of the grammar, both ways."""
    pairs = list(islice(generate(987), 500))
    asked = [(pair.english, "fr") for pair in pairs] + [(pair.french, "en") for pair in pairs]
    return [translator.source_ids(text, to, "here") for text, to in asked]


def elsewhere(name: str, demo, folder: Path, rows: list[list[int]], beam: int) -> list[list[int]]:
    export, program = OTHERS[name]
    export(run_folder.read(demo.folder), folder)
    command = [sys.executable, PROGRAMS / program, folder, TOKENS, beam]
    done = subprocess.run(
        list(map(str, command)), input=json.dumps(rows), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[list[int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def scores(translator, rows: list[list[int]], said: list[list[int]]) -> torch.Tensor:
    """log p by word of each, by the model itself."""
    found = []
    for start in range(0, len(rows), 100):
        source, source_mask = pad(rows[start : start + 100], translator.tokenizer.pad)
        with torch.inference_mode():
            state = translator.model.start(source, source_mask)
        first = torch.full((len(source),), translator.tokenizer.start)
        several = said[start : start + 100]
        found += score(translator.model, state, first, translator.tokenizer.end, several)
    return torch.tensor([each.mean for each in found])


@pytest.mark.parametrize("name", OTHERS)
def test_greedy_says_the_same_on_a_thousand_sentences(
    demo, translator, rows, name: str, tmp_path: Path
) -> None:
    said = translator.translate_ids(rows)
    theirs = elsewhere(name, demo, tmp_path / "theirs", rows, beam=1)
    different = [i for i in range(len(rows)) if said[i][:TOKENS] != theirs[i]]
    # Where they differ, two words were equally likely within rounding.
    for i in different:
        ours, other = scores(translator, [rows[i]] * 2, [said[i], theirs[i]])
        assert abs(ours - other) < 1e-3
    assert len(different) <= 2


@pytest.mark.parametrize("name", OTHERS)
def test_a_beam_finds_what_is_at_least_as_likely(
    demo, translator, rows, name: str, tmp_path: Path
) -> None:
    said = translator.translate_ids(rows, beam=5)
    theirs = elsewhere(name, demo, tmp_path / "theirs", rows, beam=5)
    ours, others = scores(translator, rows, said), scores(translator, rows, theirs)
    assert ours.mean() >= others.mean() - 1e-5
    assert ((others - ours) > 1e-3).sum() <= 10
