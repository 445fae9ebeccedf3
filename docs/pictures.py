"""The screenshots in docs/images: `python docs/pictures.py runs/demo`, with Chromium installed."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from regard.insight import page
from regard.insight.look import look
from regard.loading import load

TEXT = "The animal didn't cross the street because it was too tired."
IMAGES = Path(__file__).parent / "images"
# What the page shows is in its address: file name → address, width and height
VIEWS = {
    "attention": ("view=both&panel=cross&layer=2&pin=query-11", 1280, 1080),
    "all-heads": ("view=heads&panel=encoder", 1000, 800),
    "in-depth": ("view=depth&panel=encoder&layer=1&heads=1&pin=query-9", 1000, 1100),
    "follow": ("view=follow&panel=cross&pin=query-11", 1000, 800),
    "alignment": ("view=align&words=merged", 900, 800),
    "next-words": ("view=lens", 1280, 560),
    "steps": ("view=steps&panel=encoder&step=5&pin=query-9", 1000, 900),
}


def main(run: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "attention.html"
        page.write(look(load(run), TEXT), target)
        for name, (address, width, height) in VIEWS.items():
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
