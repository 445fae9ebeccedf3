"""A picture with known weights, and a real browser to look at it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from regard.insight import page
from regard.insight.picture import Panel, Picture

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

    def open_page(shown: Picture = picture, address: str = "") -> webdriver.Chrome:
        path = tmp_path / "page.html"
        page.write(shown, path)
        browser.get("about:blank")
        browser.get(path.as_uri() + address)
        return browser

    yield open_page
    # Whatever a test looked at, the browser must have had nothing to complain about.
    complaints = browser.get_log("browser")  # type: ignore[no-untyped-call]
    emulate(browser)
    assert complaints == []


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
