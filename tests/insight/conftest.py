"""Pictures with known numbers, and a real browser to look at them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from regard.insight.page import render
from regard.insight.picture import Film, Flow, Lens, Panel, Picture, Steps

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

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


PIECES = ("The", "ani", "mal", "was", "tir", "ed")
PIECE_WORDS = (0, 1, 1, 2, 3, 3)
SAID = ("<s>", "L'", "ani", "mal", "fati", "gué")
SAID_WORDS = (0, 1, 2, 2, 3, 3)
LAYERS, HEADS, SIZE, HEAD_SIZE = 2, 3, 12, 4


def worked(seed: int, name: str, words: tuple[str, ...], causal: bool) -> tuple[Panel, Steps]:
    """Self-attention worked out in numpy from vectors to output, so that every step is known.

    A causal one also has a bias for the positions, which the scores hold and the products do not.
    """
    rng = np.random.default_rng(seed)
    count = len(words)
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
    found = np.einsum("lhts,lhsk->lhtk", weights, values)
    joined = found.transpose(0, 2, 1, 3).reshape(LAYERS, count, -1)
    output = np.einsum("ltj,ljd->ltd", joined, w_o)
    steps = (x, x, queries, keys, values, found, output)
    panel = Panel(
        name,
        f"{name.title()} self-attention",
        words,
        words,
        weights.astype(np.float32),
        (*words[1:], "</s>") if causal else (),
        causal=causal,
        scores=scores.astype(np.float32),
        query_words=PIECE_WORDS if words == PIECES else SAID_WORDS,
        key_words=PIECE_WORDS if words == PIECES else SAID_WORDS,
    )
    return panel, Steps(name, *(step.astype(np.float32) for step in steps))


def rolled(panel: Panel) -> Weights:
    """Attention multiplied up through the layers: (layers, words, words)."""
    flows, so_far = [], np.eye(len(panel.queries))
    for layer in panel.weights.mean(axis=1):
        so_far = (0.5 * layer + 0.5 * np.eye(len(so_far))) @ so_far
        flows.append(so_far)
    weights: Weights = np.stack(flows).astype(np.float32)
    return weights


@pytest.fixture(scope="session")
def rich() -> Picture:
    """A picture that has everything a page can show."""
    encoder, encoder_steps = worked(1, "encoder", PIECES, causal=False)
    decoder, decoder_steps = worked(2, "decoder", SAID, causal=True)
    cross = replace(
        decoder,
        name="cross",
        title="Cross-attention",
        keys=PIECES,
        weights=attention(3, LAYERS, HEADS, len(SAID), len(PIECES)),
        scores=None,
        causal=False,
        key_words=PIECE_WORDS,
    )
    flow = rolled(encoder)
    chances = np.sort(np.random.default_rng(4).dirichlet(np.ones(4), (LAYERS + 1, len(SAID))))
    lens = Lens(
        SAID,
        ("embedding", "layer 1", "layer 2"),
        tuple(
            tuple(
                tuple((f"p{layer}{word}{n}", float(p)) for n, p in enumerate(row[::-1]))
                for word, row in enumerate(rows)
            )
            for layer, rows in enumerate(chances)
        ),
    )
    return Picture(
        title="runs/rich",
        caption="all there is",
        source="The animal was tired",
        output="L'animal fatigué",
        panels=(encoder, decoder, cross),
        flows=(
            Flow("rollout", "Rollout", "encoder", flow),
            Flow("gradient", "Weighted by gradients", "encoder", flow[:, ::-1].copy()),
        ),
        lens=lens,
        steps=(encoder_steps, decoder_steps),
        notes=("Only the first words are shown.", "Nothing <else> is left out."),
    )


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """One headless Chromium for all tests: starting it is what takes the time."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        reason = "the attention page is tested in Chromium: install chromium and chromedriver"
        # Where a run decides what is merged, a missing browser must not look like success.
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()


@pytest.fixture
def show(browser: webdriver.Chrome, picture: Picture, tmp_path: Path) -> Iterator[Show]:
    """Open a picture (by default the shared one) as a file, in a wide and light window."""
    emulate(browser)

    def open_page(shown: Picture | Film = picture, address: str = "") -> webdriver.Chrome:
        path = tmp_path / "page.html"
        render.write(shown, path)
        browser.get("about:blank")
        browser.get(path.as_uri() + address)
        return browser

    yield open_page
    # Whatever a test looked at, the browser must have had nothing to complain about.
    complaints = browser.get_log("browser")  # type: ignore[no-untyped-call]
    emulate(browser)
    assert complaints == []


Colour = tuple[float, ...]


def rgba(text: str) -> Colour:
    numbers = [float(n) for n in re.findall(r"[\d.]+", text)]
    return (*numbers[:3], numbers[3] if len(numbers) > 3 else 1.0)


def over(top: Colour, below: Colour) -> Colour:
    return (*(t * top[3] + b * (1 - top[3]) for t, b in zip(top[:3], below, strict=False)), 1.0)


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast ratio that accessibility guidelines define."""

    def luminance(colour: Colour) -> float:
        parts = [c / 255 for c in colour[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(f * p for f, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


class Hands:
    """What a person does with the page, and reads from it."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def find(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def script(self, text: str, *arguments: object) -> Any:
        return self.browser.execute_script(text, *arguments)

    def texts(self, selector: str) -> list[str]:
        """What is written in each element, whether it has been scrolled to or not."""
        found: list[str] = self.script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
        )
        return found

    def numbers(self, selector: str, name: str) -> list[float]:
        """The numbers in one data attribute of many elements."""
        found = self.script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.dataset[arguments[1]])",
            selector,
            name,
        )
        return [number(text) for text in found]

    def status(self) -> str:
        return self.find("[data-status]").text

    def choose(self, kind: str, value: object) -> None:
        self.find(f'label[data-{kind}="{value}"]').click()

    def hover(self, selector: str) -> None:
        ActionChains(self.browser).move_to_element(self.find(selector)).perform()

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def focus(self, selector: str) -> None:
        self.script("arguments[0].focus({focusVisible: true})", self.find(selector))

    def colours(self, selector: str) -> tuple[Colour, Colour]:
        """The text colour of an element and the background under its text."""
        text, under = self.script(
            "let e = document.querySelector(arguments[0]); const text = getComputedStyle(e).color; "
            "const under = []; for (; e; e = e.parentElement) "
            "under.push(getComputedStyle(e).backgroundColor); return [text, under]",
            selector,
        )
        background: Colour = (255.0, 255.0, 255.0, 1.0)
        for layer in reversed(under):
            background = over(rgba(layer), background)
        return rgba(text), background

    def contrast(self, selector: str) -> float:
        return contrast(*self.colours(selector))

    def views(self) -> list[str]:
        found: list[str] = self.script(
            "return [...document.querySelectorAll('label[data-view]')].map(e => e.dataset.view)"
        )
        return found


def number(text: str) -> float:
    """A number as the page prints it."""
    return float(text.replace("−", "-").replace("∞", "inf"))


@pytest.fixture
def hands(browser: webdriver.Chrome) -> Hands:
    return Hands(browser)


@pytest.fixture(scope="session")
def emulated() -> Callable[..., None]:
    return emulate


def emulate(
    browser: webdriver.Chrome,
    width: int = 1280,
    height: int = 1200,
    scheme: str = "light",
    motion: str = "no-preference",
) -> None:
    """Make the window of that size, with those wishes of the person in front of it."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
    features = [{"name": name, "value": value} for name, value in wishes.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
