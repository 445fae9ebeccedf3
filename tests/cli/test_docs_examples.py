"""Python examples of the pages that need the demo, executed in its folder."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python_in(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


@pytest.fixture
def demo_home(demo, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(demo.folder.parents[1])
    return demo.folder.parents[1]


@pytest.mark.usefixtures("demo_home")
def test_example_of_the_readme() -> None:
    (code,) = python_in("README.md")
    names: dict = {}
    exec(code, names)
    assert names["translator"].translate(["Les chats dorment."]) == ["The cats sleep."]
    assert names["seen"].weights("encoder.blocks.0.attention").shape[1] == 4


def test_example_of_visualizing_attention(demo_home: Path) -> None:
    code = python_in("docs/how-to/visualizing-attention.md")[0]
    names: dict = {}
    exec(code, names)
    assert names["picture"].panel("encoder").weights.shape[:2] == (2, 4)
    assert (demo_home / "wide.html").stat().st_size > 10_000


@pytest.mark.usefixtures("demo_home")
def test_example_of_translation() -> None:
    code = python_in("docs/how-to/translation.md")[0]
    exec(code, {})
