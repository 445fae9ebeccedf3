"""Measure how fast the attention page of a long text responds in Chromium.

    python benchmarks/page.py --write

2,000 tokens × 8 heads; from an action to the frame that shows it, median of several.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from regard.insight.page import render
from regard.insight.panels.base import Panel
from regard.insight.picture import Picture
from report import machine, table, write_results

TOKENS, HEADS = 2000, 8
ON_CELL = (
    "const box = document.getElementById('wide-scroll').getBoundingClientRect(); "
    "document.getElementById('wide-scroll').dispatchEvent(new MouseEvent('mousemove', "
    "{clientX: box.left + 112 + 16 * N, clientY: box.top + 104 + 16 * N}))"
)
ON_TOKEN = (
    "document.querySelector('button[data-query=\"N\"]')"
    ".dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))"
)
# N is 0, 1, 2 …, so that every action changes the page.
ACTIONS = {
    "point at a token": ON_TOKEN,
    "point at a cell of the heat map": ON_CELL,
    "switch a head on or off": "document.querySelector('button[data-head=\"N\"]').click()",
    "show another head in the map": "document.querySelector('label[data-map=\"N\"] input').click()",
    "scroll": "document.getElementById('wide-scroll').scrollTo(0, 700 * N)",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "page.html"
        render.write(picture(), target)
        times = measure(target, options.rounds)
    result = {"machine": machine(), "rounds": options.rounds, "milliseconds": times}
    section = describe(result)
    print(section)
    if options.write:
        write_results("page", result, section)


def describe(result: Mapping[str, Any]) -> str:
    """Return the section of the page."""
    rows = [[name, f"{times:.0f} ms"] for name, times in result["milliseconds"].items()]
    return f"""## Attention page

{TOKENS:,} tokens × {HEADS} heads in Chromium without a graphics card: time from an action to the
frame that shows it, median of {result["rounds"]}; opening, once.

{table(["", "time"], rows)}"""


def picture() -> Picture:
    """Return a picture with random attention."""
    tokens = tuple(f"w{i}" for i in range(TOKENS))
    random = np.random.default_rng(5).random((1, HEADS, TOKENS, TOKENS), dtype=np.float32) ** 300
    weights = random / random.sum(axis=-1, keepdims=True)
    return Picture("large", "", "", "", (Panel("p", "Panel", tokens, tokens, weights),))


def measure(target: Path, rounds: int) -> dict[str, float]:
    """Return the response time of each action in milliseconds."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in ("--headless=new", "--no-sandbox", "--window-size=1400,1000"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        browser.get(target.as_uri())
        opening = "return performance.getEntriesByType('navigation')[0].duration"
        times = {"open the page": float(browser.execute_script(opening))}
        for name, action in ACTIONS.items():
            rows = [_spent(browser, action.replace("N", str(n))) for n in range(rounds)]
            times[name] = statistics.median(rows)
        return times
    finally:
        browser.quit()


def _spent(browser: webdriver.Chrome, action: str) -> float:
    return float(
        browser.execute_async_script(
            f"const done = arguments[0], start = performance.now(); {action}; "
            "requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)))"
        )
    )


if __name__ == "__main__":
    main()
