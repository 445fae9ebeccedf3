"""regard look: the page and the terminal view of a trained model."""

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.tokenizers import bpe
from regard.insight.look import look
from regard.insight.watch import watch
from regard.loading import load

from .random_run import write_random_run

TIRED = "The animal didn't cross the street because it was too tired."


def embedded(page: Path) -> dict:
    """Return the only picture of a page."""
    text = re.search(
        r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL
    )
    return json.loads(text[1])["snapshots"][0]["pictures"][0]


def test_page_has_the_attention_weights_of_the_model(demo, call, tmp_path: Path) -> None:
    result = call("look", demo.folder, TIRED, "-o", tmp_path / "page.html")
    assert result.code == 0
    translator = load(demo.folder)
    tokenizer = translator.tokenizer
    source = [tokenizer.special_id("fr"), *tokenizer.encode(TIRED), tokenizer.end]
    target = [tokenizer.start, *translator.translate_ids([source])[0]]
    with torch.no_grad(), watch(translator.model) as seen:
        translator.model(
            torch.tensor([source]),
            torch.ones(1, len(source), dtype=torch.bool),
            torch.tensor([target]),
        )
    panels = {panel["name"]: panel for panel in embedded(tmp_path / "page.html")["panels"]}
    assert panels["encoder"]["keys"][:4] == ["<fr>", "The", "animal", "didn't"]
    assert panels["cross"]["queries"][:3] == ["<s>", "L'", "animal"]
    assert panels["cross"]["predicts"][:2] == ["L'", "animal"]
    for name, module in (
        ("encoder", "encoder.blocks.1.attention"),
        ("decoder", "decoder.blocks.1.attention"),
        ("cross", "decoder.blocks.1.cross"),
    ):
        shown = torch.tensor(weights_of(panels[name])[1])
        assert torch.allclose(shown, seen.weights(module)[0], atol=6e-5)


def weights_of(panel: dict[str, Any]) -> np.ndarray:
    """Unpack weights (layers, heads, queries, keys), written for unmasked pairs only."""
    packed, mask = panel["weights"], panel["may_attend"]
    octets = np.frombuffer(base64.b64decode(mask["data"]), np.uint8)
    bits = np.unpackbits(octets, bitorder="little")[: np.prod(mask["shape"])]
    written = iter(np.frombuffer(base64.b64decode(packed["data"]), "<u2") / 65535)
    weights = np.zeros(packed["shape"], np.float32)
    for layer, head, query, key in np.ndindex(*weights.shape):
        if bits.reshape(mask["shape"])[layer, query, key]:
            weights[layer, head, query, key] = next(written)
    assert next(written, None) is None
    return weights


def test_terminal_view_shows_one_panel_and_layer(demo, call, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = call("look", demo.folder, TIRED, "-o", page, "--panel", "cross", "--layer", "1")
    assert "Cross-attention, layer 1 of 2" in result.out
    assert "animal" in result.out
    assert "\x1b" not in result.out


def test_page_is_written_to_the_run_folder_by_default(demo, call) -> None:
    result = call("look", demo.folder, TIRED)
    assert result.code == 0
    assert "attention.html" in result.out.replace("\n", "")
    picture = embedded(demo.folder / "attention.html")
    assert (picture["source"], picture["title"]) == (TIRED, "demo")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["  "], "the sentence: there is no text"),
        (["the street " * 5000], "the sentence: the text has 10,0"),
        ([TIRED, "--panel", "nonsense"], "no panel is named 'nonsense'"),
        ([TIRED, "--layer", "9"], "there is no layer 9 of 2"),
        ([TIRED, "--layer", "0"], "there is no layer 0 of 2"),
        ([TIRED, "-o", "/nowhere/page.html"], "cannot be written"),
        ([TIRED, "--to", "de"], "cannot produce 'de'"),
    ],
)
def test_errors_are_one_sentence(demo, call, arguments: list[str], message: str) -> None:
    before = (demo.folder / "attention.html").read_bytes()
    result = call("look", demo.folder, *arguments)
    assert result.code == 1
    assert result.err.startswith("regard: ")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert (demo.folder / "attention.html").read_bytes() == before


def test_attention_differs_between_tired_and_wide(demo) -> None:
    translator = load(demo.folder)
    tired = look(translator, TIRED)
    wide = look(translator, TIRED.replace("tired", "wide"))
    assert "qu'il" in tired.output
    assert "qu'elle" in wide.output
    first, second = (picture.panel("encoder").weights for picture in (tired, wide))
    assert abs(first - second).max() > 0.05


def test_titles_are_the_names_of_the_runs(translator: Path, forked, tmp_path: Path) -> None:
    """Two runs of the same name are told apart by their paths."""
    other = tmp_path / "other" / translator.name
    other.parent.mkdir()
    shutil.copytree(translator, other)
    for second, titles in (
        (tmp_path / "second", [translator.name, "second"]),
        (other, [str(translator), str(other)]),
    ):
        if not second.exists():
            shutil.copytree(translator, second)
        page = tmp_path / "page.html"
        result = forked("look", translator, TIRED, "--to", "fr", "--compare", second, "-o", page)
        assert result.code == 0, result.err
        text = re.search(
            r'<script type="application/json" id="history-data">(.*?)</script>', page.read_text()
        )
        pictures = json.loads(text[1])["snapshots"][0]["pictures"]
        assert [picture["title"] for picture in pictures] == titles


def test_texts_unlike_the_training_text_are_flagged(tmp_path: Path, forked) -> None:
    run = write_random_run(
        tmp_path / "run",
        "language-model",
        {"kind": "language-model", "size": "tiny", "max_length": 200},
        bpe.Spec(vocabulary=600).train([TIRED] * 3),
        {"max_length": 200, "tokens_per_word": 1.1},
    )
    result = forked("look", run, "der herd steht draussen im garten")
    assert result.code == 0, result.err
    assert "Unlike the training text: " in result.err
    assert "tokens a word, where the training text has 1.1. This model has seen only" in result.err
    result = forked("look", run, TIRED)
    assert (result.code, result.err) == (0, "")
