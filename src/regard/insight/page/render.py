"""The attention page: one HTML file that opens in any browser, with no network.

The page lives beside this file, in the folder `page`, as readable parts: the frame, the style, and
scripts of one idea each. `render` puts them and a film together. A live page differs in one thing:
it may ask the server that it came from for another film.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from importlib.resources import files
from pathlib import Path

from regard.atomic import write_atomic
from regard.insight.picture import Film, Picture, film

# One module, in this order: what a file uses when it is read must come before it.
SCRIPTS = (
    "parts",
    "data",
    "state",
    "column",
    "controls",
    "lines",
    "wide",
    "map",
    "heads",
    "strips",
    "depth",
    "follow",
    "align",
    "lens",
    "steps",
    "views",
    "status",
    "drawings",
    "export",
    "film",
    "live",
    "start",
)


def render(shown: Film | Picture, live: bool = False) -> str:
    """Return the whole page; a `live` one has a box for texts, and asks its server about them."""
    scenes = _film(shown).scenes
    pictures = scenes[0].pictures if scenes else ()
    style = _part("page.css")
    script = "\n".join(_part(f"{name}.js") for name in SCRIPTS)
    values = {
        "policy": _policy(style, script, live),
        "style": style,
        "script": script,
        "film": _embedded(_film(shown)),
        "live": "data-live" if live else "",
        "title": html.escape(pictures[0].title if pictures else "Attention"),
        "caption": html.escape(pictures[0].caption if pictures else ""),
    }
    # One pass over the template: a sentence that says "{{script}}" stays a sentence.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _part("page.html"))


def write(shown: Film | Picture, path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, whole or not at all."""
    # A lone surrogate cannot be written as UTF-8; it becomes "?" rather than an error.
    write_atomic(Path(path), render(shown).encode("utf-8", errors="replace"))


def _film(shown: Film | Picture) -> Film:
    return film(shown) if isinstance(shown, Picture) else shown


def _part(name: str) -> str:
    return files("regard.insight.page").joinpath("assets", name).read_text(encoding="utf-8")


def _embedded(shown: Film) -> str:
    """Return the film as JSON that no text in it can break out of."""
    plain = json.dumps(shown.to_json(), allow_nan=False, separators=(",", ":"))
    # Inside <script>, only "<" can end the block ("</script") or change how it is read ("<!--").
    return plain.replace("<", "\\u003c")


def _policy(style: str, script: str, live: bool) -> str:
    """Allow exactly this style and this script, and nothing else: no network, no injected code."""
    return (
        "default-src 'none'; "
        f"style-src {_hash(style)}; script-src {_hash(script)}; img-src data: blob:; "
        + ("connect-src 'self'; " if live else "")
        + "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
