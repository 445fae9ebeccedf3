"""Does the attention page answer at once when a text is long? In a real Chromium.

    python benchmarks/page.py --write

2,000 words × 8 heads; from an action to the frame that shows it, median of several.
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from regard.insight.page import render
from regard.insight.panels.base import Panel
from regard.insight.picture import Picture
from report import keep, machine, table

WORDS, HEADS = 2000, 8
ON_CELL = (
    "const box = document.getElementById('wide-scroll').getBoundingClientRect(); "
    "document.getElementById('wide-scroll').dispatchEvent(new MouseEvent('mousemove', "
    "{clientX: box.left + 112 + 16 * N, clientY: box.top + 104 + 16 * N}))"
)
ON_WORD = (
    "document.querySelector('button[data-query=\"N\"]')"
    ".dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))"
)
# N is 0, 1, 2 …, so that there is something new to draw every time.
ACTIONS = {
    "point at a word": ON_WORD,
    "point at a cell of the heat map": ON_CELL,
    "a head on or off": "document.querySelector('button[data-head=\"N\"]').click()",
    "another head in the map": "document.querySelector('label[data-map=\"N\"] input').click()",
    "scroll": "document.getElementById('wide-scroll').scrollTo(0, 700 * N)",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "page.html"
        render.write(picture(), target)
        times = measured(target, options.rounds)
    rows = [[name, f"{each:.0f} ms"] for name, each in times.items()]
    section = f"""## The page

{WORDS:,} words × {HEADS} heads in Chromium without a graphics card: from an action to the
frame that shows it, median of {options.rounds}; opening, once.

{table(["", "time"], rows)}"""
    print(section)
    if options.write:
        keep("page", {"machine": machine(), "milliseconds": times}, section)


def picture() -> Picture:
    words = tuple(f"w{i}" for i in range(WORDS))
    drawn = np.random.default_rng(5).random((1, HEADS, WORDS, WORDS), dtype=np.float32) ** 300
    weights = drawn / drawn.sum(axis=-1, keepdims=True)
    return Picture("large", "", "", "", (Panel("p", "Panel", words, words, weights),))


def measured(target: Path, rounds: int) -> dict[str, float]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in ("--headless=new", "--no-sandbox", "--window-size=1400,1000"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        browser.get(target.as_uri())
        opening = "return performance.getEntriesByType('navigation')[0].duration"
        found = {"the page opens": float(browser.execute_script(opening))}
        for name, action in ACTIONS.items():
            all_of_it = [_spent(browser, action.replace("N", str(n))) for n in range(rounds)]
            found[name] = statistics.median(all_of_it)
        return found
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
