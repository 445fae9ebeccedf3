"""The version, what is packaged, and the completion of the shell."""

import csv
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from base64 import urlsafe_b64encode
from pathlib import Path
from zipfile import ZipFile

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
        pattern = r"[\w.-]+>=[\d.]+(; sys_platform != 'win32')?"
        assert re.fullmatch(pattern, requirement), requirement


def test_runtime_wheel_requires_what_decodes_and_has_the_rest_in_an_extra(
    project, tmp_path: Path
) -> None:
    spec = importlib.util.spec_from_file_location("runtime_wheel", ROOT / ".ci/runtime_wheel.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    requirements = [*project["project"]["dependencies"], 'onnx>=1.17; extra == "onnx"']
    requirements += ['ruff>=0.8; extra == "dev"']
    headers = ["Name: regard", *(f"Requires-Dist: {each}" for each in requirements)]
    headers += ["Provides-Extra: onnx", "Provides-Extra: dev"]
    metadata = "\n".join([*headers, "", "# Regard"])
    original = tmp_path / "regard-0.1.0-py3-none-any.whl"
    with ZipFile(original, "w") as wheel:
        wheel.writestr("regard/__init__.py", "pass")
        wheel.writestr("regard-0.1.0.dist-info/METADATA", metadata)
        wheel.writestr("regard-0.1.0.dist-info/RECORD", "")
    path = script.runtime_wheel(original)
    assert path.name == "regard_runtime-0.1.0-py3-none-any.whl"
    with ZipFile(path) as wheel:
        lines = wheel.read("regard_runtime-0.1.0.dist-info/METADATA").decode().splitlines()
        listed = wheel.read("regard_runtime-0.1.0.dist-info/RECORD").decode().splitlines()
        record = list(csv.reader(listed))
        assert sorted(wheel.namelist()) == sorted(name for name, *_ in record)
        for name, digest, size in record[:-1]:
            content = wheel.read(name)
            encoded = urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert (digest, size) == (f"sha256={encoded}", str(len(content)))
    runtime = project["tool"]["regard"]["runtime"]
    kept = [each for each in requirements[:-2] if each.partition(">=")[0] in runtime]
    full = [each for each in requirements[:-2] if each not in kept]
    assert len(kept) == len(runtime)
    assert any(each.startswith("torch>") for each in full)
    expected = [*kept, *(f'{each}; extra == "full"' for each in full), requirements[-2]]
    required = [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist" in line]
    assert sorted(required) == sorted(expected)
    assert "Name: regard-runtime" in lines
    assert {line for line in lines if "Provides" in line} == {
        "Provides-Extra: onnx",
        "Provides-Extra: full",
    }
    assert lines[-2:] == ["", "# Regard"]


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
