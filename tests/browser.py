"""A browser, and hands that use it, for the tests of pages."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

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

Color = tuple[float, ...]


@contextmanager
def chromium(profile: Path, *logs: str) -> Iterator[webdriver.Chrome]:
    """Start a headless Chromium with its profile in a folder; `logs` are kept: "browser" …"""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        reason = "pages are tested in Chromium: install chromium and chromedriver"
        # Where a run decides what is merged, a missing browser must not look like success.
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", dict.fromkeys(logs, "ALL"))
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield chrome
    finally:
        chrome.quit()


def emulate(
    browser: webdriver.Chrome,
    width: int = 1280,
    height: int = 1200,
    scheme: str = "light",
    motion: str = "no-preference",
) -> None:
    """Set the size of the window and the preferences of the system."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    preferences = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
    features = [{"name": name, "value": value} for name, value in preferences.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def rgba(text: str) -> Color:
    numbers = [float(n) for n in re.findall(r"[\d.]+", text)]
    return (*numbers[:3], numbers[3] if len(numbers) > 3 else 1.0)


def over(top: Color, below: Color) -> Color:
    return (*(t * top[3] + b * (1 - top[3]) for t, b in zip(top[:3], below, strict=False)), 1.0)


def contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio that accessibility guidelines define."""

    def luminance(color: Color) -> float:
        parts = [c / 255 for c in color[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(f * p for f, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


class Hands:
    """Mouse, keyboard and reading of the page."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def find(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def script(self, text: str, *arguments: object) -> Any:
        return self.browser.execute_script(text, *arguments)

    def texts(self, selector: str) -> list[str]:
        """Return the text of each element, visible or not."""
        texts: list[str] = self.script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
        )
        return texts

    def hover(self, selector: str) -> None:
        ActionChains(self.browser).move_to_element(self.find(selector)).perform()

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def focus(self, selector: str) -> None:
        self.script("arguments[0].focus({focusVisible: true})", self.find(selector))

    def colors(self, selector: str) -> tuple[Color, Color]:
        """Return the text color of an element and the background under its text."""
        text, under = self.script(
            "let e = document.querySelector(arguments[0]); const text = getComputedStyle(e).color; "
            "const under = []; for (; e; e = e.parentElement) "
            "under.push(getComputedStyle(e).backgroundColor); return [text, under]",
            selector,
        )
        background: Color = (255.0, 255.0, 255.0, 1.0)
        for layer in reversed(under):
            background = over(rgba(layer), background)
        return rgba(text), background

    def contrast(self, selector: str) -> float:
        return contrast(*self.colors(selector))

    def contrasts(self, area: str, selector: str) -> list[float]:
        """Return the contrast of one visible element of each kind in an area."""
        pairs = self.script(
            "const kinds = new Map(); "
            "for (const e of document.querySelector(arguments[0]).querySelectorAll(arguments[1])) "
            "if (e.offsetParent && e.textContent.trim()) "
            "kinds.set(`${e.tagName} ${e.className}`, e); "
            "return [...kinds.values()].map(e => { const text = getComputedStyle(e).color; "
            "const under = []; for (; e; e = e.parentElement) "
            "under.push(getComputedStyle(e).backgroundColor); return [text, under] })",
            area,
            selector,
        )
        ratios = []
        for text, under in pairs:
            background: Color = (255.0, 255.0, 255.0, 1.0)
            for layer in reversed(under):
                background = over(rgba(layer), background)
            ratios.append(contrast(rgba(text), background))
        return ratios
