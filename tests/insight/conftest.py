"""Pictures with known numbers, and a browser to open them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import numpy as np
import numpy.typing as npt
import pytest
from selenium import webdriver

from regard.insight.page import render
from regard.insight.panels.base import Panel
from regard.insight.picture import History, Picture
from regard.insight.views.entropy import Entropy, PanelEntropy, mean_entropy
from regard.insight.views.label import LabelEvidence
from regard.insight.views.logit_lens import LogitLens
from regard.insight.views.rollout import Rollout, Rollouts
from regard.insight.views.steps import Steps, StepVectors

from ..browser import Hands, chromium, emulate

ENGLISH = ("The", "animal", "did", "not", "cross", "because", "it", "was", "tired")
FRENCH = ("<s>", "L'", "animal", "n'", "a", "pas", "traversé")

Weights = npt.NDArray[np.float32]
Show = Callable[..., webdriver.Chrome]


def attention(seed: int, *shape: int, causal: bool = False) -> Weights:
    """Return random attention that is sharp in places, as in a trained model."""
    scores = np.random.default_rng(seed).normal(0, 2, shape)
    if causal:
        scores = np.where(np.tril(np.ones(shape[-2:], dtype=bool)), scores, -np.inf)
    grown = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: Weights = (grown / grown.sum(axis=-1, keepdims=True)).astype(np.float32)
    return weights


@pytest.fixture(scope="session")
def make_attention() -> Callable[..., Weights]:
    return attention


@pytest.fixture(scope="session")
def picture() -> Picture:
    source, target = len(ENGLISH), len(FRENCH)
    says = (*FRENCH[1:], "la")
    return Picture(
        title="runs/demo",
        caption="encoder-decoder, 3 + 2 layers, 4 heads",
        source="The animal did not cross because it was tired.",
        output="L'animal n'a pas traversé",
        panels=(
            Panel(
                "encoder",
                "Encoder self-attention",
                ENGLISH,
                ENGLISH,
                attention(1, 3, 4, source, source),
            ),
            Panel(
                "decoder",
                "Decoder self-attention",
                FRENCH,
                FRENCH,
                attention(2, 2, 4, target, target, causal=True),
                says,
                causal=True,
            ),
            Panel(
                "cross",
                "Cross-attention",
                FRENCH,
                ENGLISH,
                attention(3, 2, 4, target, source),
                says,
            ),
        ),
    )


SOURCE = ("The", "ani", "mal", "was", "tir", "ed")
SOURCE_WORDS = (0, 1, 1, 2, 3, 3)
TARGET = ("<s>", "L'", "ani", "mal", "fati", "gué")
TARGET_WORDS = (0, 1, 2, 2, 3, 3)
LAYERS, HEADS, SIZE, HEAD_SIZE = 2, 3, 12, 4


def worked(
    seed: int, name: str, tokens: tuple[str, ...], causal: bool
) -> tuple[Panel, StepVectors]:
    """Compute self-attention in numpy from input to output, so that every step is known.

    Causal attention also has a position bias, which is part of the scores, not of q·k.
    """
    rng = np.random.default_rng(seed)
    count = len(tokens)
    x = rng.normal(0, 1, (LAYERS, count, SIZE))
    w_q, w_k, w_v = rng.normal(0, 0.5, (3, LAYERS, HEADS, SIZE, HEAD_SIZE))
    w_o = rng.normal(0, 0.5, (LAYERS, HEADS * HEAD_SIZE, SIZE))
    queries, keys, values = (np.einsum("ltd,lhdk->lhtk", x, w) for w in (w_q, w_k, w_v))
    scores = np.einsum("lhtk,lhsk->lhts", queries, keys) / np.sqrt(HEAD_SIZE)
    if causal:
        scores = scores - 0.25 * (np.arange(count)[:, None] - np.arange(count))
        scores = np.where(np.tril(np.ones((count, count), dtype=bool)), scores, -np.inf)
    grown = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = grown / grown.sum(axis=-1, keepdims=True)
    head_outputs = np.einsum("lhts,lhsk->lhtk", weights, values)
    joined = head_outputs.transpose(0, 2, 1, 3).reshape(LAYERS, count, -1)
    output = np.einsum("ltj,ljd->ltd", joined, w_o)
    steps = (x, x, queries, keys, values, head_outputs, output)
    panel = Panel(
        name,
        f"{name.title()} self-attention",
        tokens,
        tokens,
        weights.astype(np.float32),
        (*tokens[1:], "</s>") if causal else (),
        causal=causal,
        scores=scores.astype(np.float32),
        query_words=SOURCE_WORDS if tokens == SOURCE else TARGET_WORDS,
        key_words=SOURCE_WORDS if tokens == SOURCE else TARGET_WORDS,
    )
    return panel, StepVectors(name, *(step.astype(np.float32) for step in steps))


def rolled(panel: Panel) -> Weights:
    """Return the attention rollout of a panel: (layers, tokens, tokens)."""
    shares, so_far = [], np.eye(len(panel.queries))
    for layer in panel.weights.mean(axis=1):
        so_far = (0.5 * layer + 0.5 * np.eye(len(so_far))) @ so_far
        shares.append(so_far)
    weights: Weights = np.stack(shares).astype(np.float32)
    return weights


@pytest.fixture(scope="session")
def rich() -> Picture:
    """Return a picture with data for every view."""
    encoder, encoder_steps = worked(1, "encoder", SOURCE, causal=False)
    decoder, decoder_steps = worked(2, "decoder", TARGET, causal=True)
    cross = replace(
        decoder,
        name="cross",
        title="Cross-attention",
        keys=SOURCE,
        weights=attention(3, LAYERS, HEADS, len(TARGET), len(SOURCE)),
        scores=None,
        causal=False,
        key_words=SOURCE_WORDS,
    )
    shares = rolled(encoder)
    probabilities = np.sort(
        np.random.default_rng(4).dirichlet(np.ones(4), (LAYERS + 1, len(TARGET)))
    )
    lens = LogitLens(
        TARGET,
        ("embedding", "layer 1", "layer 2"),
        tuple(
            tuple(
                tuple((f"p{layer}{word}{n}", float(p)) for n, p in enumerate(row[::-1]))
                for word, row in enumerate(rows)
            )
            for layer, rows in enumerate(probabilities)
        ),
    )
    return Picture(
        title="runs/rich",
        caption="all there is",
        source="The animal was tired",
        output="L'animal fatigué",
        panels=(encoder, decoder, cross),
        views={
            "rollout": Rollouts(
                (
                    Rollout("rollout", "Rollout", "encoder", shares),
                    Rollout("gradient", "Weighted by gradients", "encoder", shares[:, ::-1].copy()),
                )
            ),
            "logit-lens": lens,
            "label": LabelEvidence(
                "good",
                0.9,
                ("The", "animal", "was", "tired"),
                *np.random.default_rng(5).dirichlet(np.ones(4), 2).astype(np.float32),
                np.array([np.nan, 0.2, 0.95, 0.85], np.float32),
                np.array([np.nan, 3.6, -0.7, 0.5], np.float32),
            ),
            "steps": Steps((encoder_steps, decoder_steps)),
            "entropy": Entropy(
                tuple(
                    PanelEntropy(
                        panel.name,
                        mean_entropy(panel.weights),
                        float(np.log2(len(panel.keys))),
                    )
                    for panel in (encoder, decoder, cross)
                )
            ),
        },
        notes=("Only the first tokens are shown.", "Nothing <else> is left out."),
    )


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Start one headless Chromium for all tests of a worker: starting takes most of the time."""
    with chromium(tmp_path_factory.mktemp("chromium"), "browser") as chrome:
        yield chrome


@pytest.fixture
def show(browser: webdriver.Chrome, picture: Picture, tmp_path: Path) -> Iterator[Show]:
    """Return a function that opens a picture (by default the shared one) in a wide light window.

    An address without a panel shows the first one; with None the page opens as it is.
    """
    emulate(browser)

    def open_page(shown: Picture | History = picture, address: str | None = "") -> webdriver.Chrome:
        if address is None:
            address = ""
        elif "panel=" not in address:
            address = f"{address or '#'}&panel=encoder"
        path = tmp_path / "page.html"
        render.write(shown, path)
        browser.get("about:blank")
        browser.get(path.as_uri() + address)
        return browser

    yield open_page
    # No page may log a warning or an error.
    messages = browser.get_log("browser")  # type: ignore[no-untyped-call]
    emulate(browser)
    assert messages == []


class AttentionHands(Hands):
    """Hands that know the controls of the attention page."""

    def numbers(self, selector: str, name: str) -> list[float]:
        """Return the numbers in one data attribute of many elements."""
        texts = self.script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.dataset[arguments[1]])",
            selector,
            name,
        )
        return [number(text) for text in texts]

    def status(self) -> str:
        return self.find("[data-status]").text

    def choose(self, kind: str, value: object) -> None:
        self.find(f'label[data-{kind}="{value}"]').click()

    def address(self) -> dict[str, str]:
        """Return the choices that the address stores."""
        fields = parse_qs(urlparse(self.browser.current_url).fragment)
        return {name: values[0] for name, values in fields.items()}

    def table(self, part: str) -> npt.NDArray[Any]:
        """Return the numbers of a table whose cells have weights."""
        rows = self.script(
            "return [...document.getElementById(arguments[0]).tBodies[0].rows].map(row => "
            "[...row.querySelectorAll('td[data-weight]')]"
            ".map(cell => Number(cell.dataset.weight)))",
            part,
        )
        return np.array(rows)

    def vectors(self, part: str) -> dict[str, npt.NDArray[Any]]:
        """Return the vectors in the table of numbers, opened where it was closed."""
        self.script("document.getElementById(arguments[0]).open = true", part)
        self.script("document.getElementById(arguments[0]).fill()", part)
        rows = self.script(
            "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map(row => "
            "[row.cells[0].textContent, [...row.querySelectorAll('td')].map(c => c.textContent)])",
            part,
        )
        return {name: np.array([number(v) for v in values]) for name, values in rows}

    def exported(self) -> dict[str, Any]:
        """Return the exports of the view without saving them: SVG text and JSON data."""
        texts = self.browser.execute_async_script(
            "const done = arguments[0], blobs = [], real = URL.createObjectURL; "
            "URL.createObjectURL = (blob) => { blobs.push(blob); return 'data:,'; }; "
            "const click = HTMLAnchorElement.prototype.click; "
            "HTMLAnchorElement.prototype.click = () => {}; "
            "document.querySelector('[data-save=svg]').click(); "
            "document.querySelector('[data-save=json]').click(); "
            "setTimeout(async () => { URL.createObjectURL = real; "
            "HTMLAnchorElement.prototype.click = click; "
            "done(await Promise.all(blobs.map(b => b.text()))); });"
        )
        return {"svg": texts[0], "data": json.loads(texts[1])}

    def views(self) -> list[str]:
        names: list[str] = self.script(
            "return [...document.querySelectorAll('label[data-view]')].map(e => e.dataset.view)"
        )
        return names


def number(text: str) -> float:
    """Parse a number as the page prints it."""
    return float(text.replace("−", "-").replace("∞", "inf"))


@pytest.fixture(scope="session")
def merge_words() -> Callable[..., npt.NDArray[Any]]:
    return merged


def merged(
    weights: npt.NDArray[Any], queries: tuple[int, ...], keys: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Average weights over the query tokens of each word, and sum them over its key tokens."""
    to_query = np.eye(max(queries) + 1)[list(queries)].T
    to_key = np.eye(max(keys) + 1)[list(keys)]
    by_word: npt.NDArray[Any] = (to_query / to_query.sum(axis=1, keepdims=True)) @ weights @ to_key
    return by_word


@pytest.fixture
def hands(browser: webdriver.Chrome) -> AttentionHands:
    return AttentionHands(browser)


@pytest.fixture(scope="session")
def emulated() -> Callable[..., None]:
    return emulate
