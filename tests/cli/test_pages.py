"""The Python that the pages show, run beside a demo as a reader would run it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python_in(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


@pytest.fixture
def beside(demo, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(demo.folder.parents[1])
    return demo.folder.parents[1]


@pytest.mark.usefixtures("beside")
def test_the_readme() -> None:
    (code,) = python_in("README.md")
    names: dict = {}
    exec(code, names)
    assert names["translator"].translate(["Les chats dorment."]) == ["The cats sleep."]
    assert names["seen"].weights("encoder.blocks.0.attention").shape[1] == 4


def test_seeing(beside: Path) -> None:
    code = python_in("docs/how-to/visualizing-attention.md")[0]
    names: dict = {}
    exec(code, names)
    assert names["picture"].panel("encoder").weights.shape[:2] == (2, 4)
    assert (beside / "wide.html").stat().st_size > 10_000


@pytest.mark.usefixtures("beside")
def test_translating() -> None:
    code = python_in("docs/how-to/translation.md")[0]
    exec(code, {})
