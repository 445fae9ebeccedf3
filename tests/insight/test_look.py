"""From a model's tensors to the page: a translator in a browser, and in the terminal."""

from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from selenium.webdriver.common.by import By

from regard.data.config import Direction
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.errors import DataError
from regard.insight import terminal
from regard.insight.look import look
from regard.insight.page import render
from regard.insight.watch import watch
from regard.models.base import ModelSpec
from regard.models.encoder_decoder import EncoderDecoder
from regard.predictors.translator import Translator

EN, FR = "the cat sleeps under the tree", "le chat dort sous l'arbre"


@pytest.fixture(scope="module")
def translator() -> Translator:
    return untrained()


def untrained(**changes: object) -> Translator:
    """Return a translator with random weights."""
    torch.manual_seed(4)
    tokenizer = bpe.Spec(vocabulary=400).train([EN, FR] * 3, ["fr", "en"])
    spec = ModelSpec.model_validate({"kind": "encoder-decoder", "size": "tiny", **changes})
    model = spec.build(len(tokenizer))
    assert isinstance(model, EncoderDecoder)
    guess = LanguageIdentifier.learn({"fr": [tokenizer.encode(FR)], "en": [tokenizer.encode(EN)]})
    return Translator(model, tokenizer, guess, 30, [Direction("fr", "en"), Direction("en", "fr")])


def shown_cells(browser) -> list[tuple[float, float, float]]:
    """Return (query, key, weight) of every cell of the heat map."""
    cells: list[tuple[float, float, float]] = browser.execute_script(
        "return [...document.querySelectorAll('#heat-map td[data-weight]')].map(({dataset: d}) => "
        "[d.query, d.key, d.weight].map(Number))"
    )
    return cells


def test_weights_on_the_page_are_those_of_the_tensors(
    translator: Translator, browser, tmp_path: Path
) -> None:
    render.write(look(translator, EN, to="fr", title="a test"), tmp_path / "page.html")
    source = translator.source_ids(EN, "fr", "here")
    target = [translator.tokenizer.start, *translator.translate_ids([source])[0]]
    with torch.no_grad(), watch(translator.model) as seen:
        translator.model(
            torch.tensor([source]),
            torch.ones(1, len(source), dtype=torch.bool),
            torch.tensor([target]),
        )
    for panel, module in (
        ("encoder", "encoder.blocks.0.attention"),
        ("decoder", "decoder.blocks.0.attention"),
        ("cross", "decoder.blocks.0.cross"),
    ):
        weights = seen.weights(module)[0]
        for head in (0, 3):
            browser.get("about:blank")
            address = f"#panel={panel}&layer=1&heads={head + 1}&map={head + 1}"
            browser.get((tmp_path / "page.html").as_uri() + address)
            cells = shown_cells(browser)
            assert len(cells) == weights[head].numel()
            shown = torch.zeros_like(weights[head])
            for query, key, weight in cells:
                shown[int(query), int(key)] = weight
            assert torch.allclose(shown, weights[head], atol=6e-5)


def test_panels_have_the_tokens_of_the_text(translator: Translator) -> None:
    picture = look(translator, EN)
    assert picture.panel("encoder").queries == ("<fr>", *EN.split(), "</s>")
    assert picture.panel("decoder").queries[0] == "<s>"
    assert picture.panel("decoder").queries[1:] == picture.panel("decoder").predicts[:-1]
    assert picture.panel("decoder").causal


def test_target_language_is_inferred_or_required(translator: Translator) -> None:
    assert translator.target_language(EN) == "fr"
    assert translator.target_language(FR) == "en"
    three = LanguageIdentifier({"fr": {10: 1}, "en": {11: 1}, "de": {12: 1}})
    ways = [Direction(one, other) for one in three.counts for other in three.counts if one != other]
    many = Translator(translator.model, translator.tokenizer, three, 30, ways)
    with pytest.raises(DataError, match="the target language is not clear: give one of en, de, fr"):
        many.translate([EN])


def test_too_long_texts_are_refused(translator: Translator) -> None:
    with pytest.raises(DataError, match=r"the text has 3\d tokens .* at most 30"):
        look(translator, "the cat " * 16, "fr")


def test_page_shows_the_experts_of_each_token(browser, tmp_path: Path) -> None:
    mixture = untrained(feed_forward={"kind": "moe", "num_experts": 6})
    picture = look(mixture, EN, to="fr")
    assert [panel.name for panel in picture.panels] == [
        *("encoder", "decoder", "cross"),
        *("experts-encoder", "experts-decoder"),
    ]
    panel = picture.panel("experts-encoder")
    assert panel.queries == picture.panel("encoder").queries
    assert panel.keys == tuple(f"expert {number}" for number in range(1, 7))
    source = torch.tensor([mixture.source_ids(EN, "fr", "here")])
    with torch.no_grad(), watch(mixture.model) as seen:
        mixture.model.encoder(source)
    for layer in range(2):
        gates = seen.last(f"encoder.blocks.{layer}.feed_forward", "experts")[0]
        assert torch.allclose(torch.from_numpy(panel.weights[layer, 0]), gates, atol=1e-5)
    render.write(picture, tmp_path / "page.html")
    browser.get((tmp_path / "page.html").as_uri() + "#panel=experts-encoder&layer=2&map=1")
    cells = shown_cells(browser)
    assert len(cells) == len(panel.queries) * 6
    for query, key, shown in cells:
        weight = float(panel.weights[1, 0, int(query), int(key)])
        assert shown == pytest.approx(weight, abs=6e-5)
    assert "expert 6" in browser.find_element(By.CSS_SELECTOR, "#heat-map").text


def test_terminal_names_all_experts_of_a_token() -> None:
    mixture = untrained(feed_forward={"kind": "moe", "num_experts": 6, "top_k": 3})
    picture = look(mixture, EN, to="fr")
    console = Console(width=100, file=StringIO())
    console.print(terminal.render(picture, "experts-decoder", 0))
    printed = console.file.getvalue()
    row = picture.panel("experts-decoder").weights[0, 0, 0]
    best = row.argsort()[::-1][:3]
    assert "   ".join(f"expert {key + 1} {row[key]:.2f}" for key in best) in printed
    assert "head" not in printed
