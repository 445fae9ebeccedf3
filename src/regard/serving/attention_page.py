"""The page of `regard look --live`, rendered by a process of its own: its views import torch.

`python -m regard.serving.attention_page` prints the policy of the page and the page.
"""

import subprocess
import sys
from functools import cache
from threading import Lock
from typing import NamedTuple

from regard.errors import RegardError
from regard.missing_modules import required_by
from regard.serving.errors import Unprocessable

SECONDS = 60.0  # to render the page, most of them to import torch

_rendering = Lock()


class AttentionPage(NamedTuple):
    """A page that shows the attention of the texts that it sends to `look` beside it."""

    policy: str  # of its content: hashes of its own style and script
    html: str


def attention_page() -> AttentionPage:
    """Return the page; the first call takes some seconds.

    Raises:
        Unprocessable: torch is not installed.
    """
    with _rendering:
        page = _rendered()
    if isinstance(page, str):
        raise Unprocessable(page)
    return page


@cache  # a failure too: whoever asks again and again starts one process
def _rendered() -> AttentionPage | str:
    """Return the page, or why there is none."""
    command = [sys.executable, "-P", "-m", "regard.serving.attention_page"]
    process = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=SECONDS)
    if process.returncode:
        return process.stderr.strip().rpartition("\n")[2]
    policy, _, html = process.stdout.partition("\n")
    return AttentionPage(policy, html)


def _print() -> None:
    with required_by("the attention page"):
        from regard.insight.page import render
        from regard.insight.picture import History
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    print(render.policy(live=True))
    print(render.render(History(()), live=True))


if __name__ == "__main__":
    try:
        _print()
    except RegardError as error:
        sys.exit(str(error))
