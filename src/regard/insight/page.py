"""The attention page: one HTML file that opens in any browser, with no network.

The page lives beside this file as three readable parts (`page.html`, `page.css`, `page.js`);
`render` puts them and a picture together.
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

from regard.files import write_whole
from regard.insight.picture import Picture


def render(picture: Picture) -> str:
    """Return the whole page for `picture`."""
    style, script = _part("page.css"), _part("page.js")
    values = {
        "policy": _policy(style, script),
        "style": style,
        "script": script,
        "picture": _embedded(picture),
        "title": html.escape(picture.title),
        "caption": html.escape(picture.caption),
        "source": html.escape(picture.source),
        "output": html.escape(picture.output),
        "output_hidden": "" if picture.output else "hidden",
    }
    # One pass over the template: a sentence that says "{{script}}" stays a sentence.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _part("page.html"))


def write(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, whole or not at all."""
    # A lone surrogate cannot be written as UTF-8; it becomes "?" rather than an error.
    write_whole(Path(path), render(picture).encode("utf-8", errors="replace"))


def _part(name: str) -> str:
    return files("regard.insight").joinpath(name).read_text(encoding="utf-8")


def _embedded(picture: Picture) -> str:
    """Return the picture as JSON that no text in it can break out of."""
    plain = json.dumps(picture.to_json(), allow_nan=False, separators=(",", ":"))
    # Inside <script>, only "<" can end the block ("</script") or change how it is read ("<!--").
    return plain.replace("<", "\\u003c")


def _policy(style: str, script: str) -> str:
    """Allow exactly this style and this script, and nothing else: no network, no injected code."""
    return (
        "default-src 'none'; "
        f"style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
