"""Write the screenshots in docs/images (needs Chromium).

python docs/_scripts/screenshots.py runs/demo
python docs/_scripts/screenshots.py runs/reviews   (see docs/tutorials/sentiment-classifier.md)
python docs/_scripts/screenshots.py runs/window runs/bigbird   (see docs/how-to/long-sequences.md)
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from regard.insight.look import look
from regard.insight.page import render
from regard.insight.picture import History
from regard.loading import load
from regard.predictors.classifier import Classifier

TEXT = "The animal didn't cross the street because it was too tired."
IMAGES = Path(__file__).parents[1] / "images"
# What the page shows is in its address: file name → address, width and height
VIEWS = {
    "attention": ("view=overview&panel=cross&layer=2&pin=query-11", 1280, 1080),
    "all-heads": ("view=all-heads&panel=encoder", 1000, 800),
    "one-head": ("view=one-head&panel=encoder&layer=1&heads=1&pin=query-9", 1000, 1100),
    "rollout": ("view=rollout&panel=cross&pin=query-11", 1000, 800),
    "alignment": ("view=alignment&words=merged", 900, 800),
    "logit-lens": ("view=logit-lens", 1280, 560),
    "steps": ("view=steps&panel=encoder&step=5&pin=query-9", 1000, 900),
}
# Of a classifier.
LABELED = {"label": ("view=label", 1000, 800)}
REVIEW = "the acting is superb , but the plot is not clever ."
# Of two runs side by side, each with a text of its own.
BESIDE = {"sparse": ("view=all-heads", 1280, 1040)}
LONG = (
    "To be, or not to be: that is the question: Whether 'tis nobler",
    "a film that begins as a comedy, goes on as a tragedy and ends as neither, with a cast that "
    "seems to have been told three different stories, a score that belongs to a fourth, and a last "
    "hour so slow that one is grateful for every door that opens; and yet there is in the middle "
    "of all this a quiet scene of two people at a table that is worth the whole evening.",
)


def main(*runs: str) -> None:
    models = [load(run) for run in runs]
    views, texts = (VIEWS, [TEXT]) if len(runs) == 1 else (BESIDE, LONG)
    if isinstance(models[0], Classifier) and len(runs) == 1:
        views, texts = LABELED, [REVIEW]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "attention.html"
        looks = (look(model, text) for model, text in zip(models, texts, strict=True))
        render.write(History.of(*looks), target)
        for name, (address, width, height) in views.items():
            picture = IMAGES / f"{name}.png"
            _shoot(f"file://{target}#{address}&theme=light", picture, width, height)
            print(picture)


def _shoot(address: str, picture: Path, width: int, height: int) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("no Chromium.")
    size = ("--headless=new", "--no-sandbox", f"--window-size={width},{height}")
    when = ("--virtual-time-budget=4000", f"--screenshot={picture}")
    subprocess.run([browser, *size, *when, address], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main(*sys.argv[1:])
