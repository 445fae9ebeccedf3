"""The attention page: one HTML file that opens in any browser, without a network.

The folder `assets` holds its frame, its style and its common scripts; each view brings its own
script (`insight/views`). `render` puts them and a history together. A live page may also ask its
server for another history.
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
from typing import Any

from regard.atomic import write_atomic
from regard.insight.picture import History, Picture
from regard.insight.views.base import all_views

# One module, in this order: a file comes after those that it uses while it is read. The scripts of
# the views come between the two.
COMMON = ("parts", "data", "state", "column", "controls", "wide", "strips", "drawings", "views")
AFTER_VIEWS = ("status", "export", "history", "live", "start")
STYLES = ("palette.css", "page.css")


def render(shown: History | Picture, live: bool = False) -> str:
    """Return the page as HTML; a `live` one has a box for texts and sends them to its server."""
    history = _history(shown)
    pictures = history.snapshots[0].pictures if history.snapshots else ()
    values = {
        "policy": policy(live),
        "style": _style(),
        "script": _script(),
        "views": _embedded(_menu()),
        "help": _help(),
        "history": _embedded(history.to_json()),
        "live": "data-live" if live else "",
        "title": html.escape(pictures[0].title if pictures else "Attention"),
        "caption": html.escape(pictures[0].caption if pictures else ""),
    }
    # One pass over the template, so that a text with "{{script}}" in it stays a text.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _asset("page.html"))


def policy(live: bool = False) -> str:
    """Return a policy that allows the page's own style and script: no network, no injected code."""
    return (
        "default-src 'none'; "
        f"style-src {_hash(_style())}; script-src {_hash(_script())}; img-src data: blob:; "
        + ("connect-src 'self'; " if live else "")
        + "base-uri 'none'; form-action 'none'"
    )


def write(shown: History | Picture, path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, atomically."""
    # A lone surrogate cannot be written as UTF-8; it becomes "?" rather than an error.
    write_atomic(Path(path), render(shown).encode("utf-8", errors="replace"))


def _history(shown: History | Picture) -> History:
    return History.of(shown) if isinstance(shown, Picture) else shown


def _style() -> str:
    return "\n".join(map(_asset, STYLES))


def _script() -> str:
    views = [view.script() for view in all_views()]
    before, after = ([_asset(f"{name}.js") for name in names] for names in (COMMON, AFTER_VIEWS))
    return "\n".join([*before, *views, *after])


def _menu() -> list[dict[str, Any]]:
    """Return the names, titles, questions and cards of the views for the page's menu."""
    return [
        {
            "name": view.kind(),
            "title": view.title,
            "question": view.question,
            "cards": list(view.cards) or [view.kind()],
        }
        for view in all_views()
    ]


def _help() -> str:
    """Return the mouse and keyboard help of the views as list items."""
    return "".join(
        f"<li><b>{html.escape(view.title)}:</b> {html.escape(view.keyboard)}</li>"
        for view in all_views()
        if view.keyboard
    )


def _asset(name: str) -> str:
    return files("regard.insight.page").joinpath("assets", name).read_text(encoding="utf-8")


def _embedded(content: Any) -> str:
    """Return JSON that no text in it can break out of."""
    plain = json.dumps(content, allow_nan=False, separators=(",", ":"))
    # Inside <script>, only "<" can end the block ("</script") or change how it is read ("<!--").
    return plain.replace("<", "\\u003c")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
