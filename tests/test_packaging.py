"""The version, what is packaged, and the completion of the shell."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    settings: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return settings


def test_version_is_in_one_place(project) -> None:
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "regard.__version__"}
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == regard.__version__


def test_dependencies_have_lower_bounds_only(project) -> None:
    extras = project["project"]["optional-dependencies"]
    required = [*project["project"]["dependencies"], *extras["serve"], *extras["onnx"]]
    for requirement in required:
        assert re.fullmatch(r"[\w.-]+>=[\d.]+", requirement), requirement


def test_every_file_that_is_not_python_is_packaged(project) -> None:
    package = ROOT / "src" / "regard"
    patterns = project["tool"]["setuptools"]["package-data"]["regard"]
    packaged = {path for pattern in patterns for path in package.glob(pattern)}
    compiled = {".py", ".pyc", ".so", ".cpp", ".h"}
    files = {path for path in package.rglob("*") if path.is_file()}
    assert {path for path in files if path.suffix not in compiled} <= packaged


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options_are_completed(shell: str) -> None:
    def complete(*words: str) -> str:
        environment = {
            **os.environ,
            "_REGARD_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
            "_TYPER_COMPLETE_ARGS": " ".join(words),
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        code = "import sys; sys.argv[0] = 'regard'; from regard.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert {"train", "translate"} <= set(re.findall(r"[\w-]+", complete("regard", "tra")))
    assert "--n-best" in complete("regard", "translate", "--n-")
