"""Test Regard with the oldest and the newest versions of its dependencies (make test-versions).

    python .ci/versions.py [oldest] [newest]

Each gets an environment in build/versions. Oldest: the lower bounds in pyproject.toml. Newest:
whatever pip finds; torch is that of constraints.txt in both, because another one brings gigabytes
of CUDA libraries. The tests are those that use a dependency directly, and all commands.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "versions"
TOOLS = ["pytest", "pytest-xdist", "hypothesis", "httpx"]
TESTS = [
    "tests/test_config.py",
    "tests/attention",
    "tests/data",
    "tests/decoding",
    "tests/evaluation",
    "tests/training/test_learning.py",
    "tests/training/test_resume.py",
    "tests/cli/test_train.py",
    "tests/cli/test_translate.py",
    "tests/cli/test_classify.py",
]
# Tests that compare with other libraries, which need other versions of the same dependencies.
PEERS = [
    "--ignore=tests/data/sources/test_parsed.py",
    "--ignore=tests/decoding/test_logits_processors.py",
    "--ignore=tests/decoding/test_sampling.py",
    "--ignore=tests/evaluation/test_classification.py",
    "--deselect=tests/data/sources/test_hostile.py::test_text_too_long_for_the_parser_is_rejected",
    "--deselect=tests/data/sources/test_mutations.py",
]


def constraints(name: str) -> list[str]:
    """Return the constraints of pip, a requirement a line."""
    (torch,) = re.findall(r"^torch.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    if name == "newest":
        return [torch]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lower_bounds = [*project["dependencies"], *extras["serve"]]
    return [torch, *(bound.replace(">=", "==") for bound in lower_bounds if "torch>" not in bound)]


def test(name: str) -> None:
    """Install into a new environment and run the tests there."""
    environment, listed = FOLDER / name, FOLDER / f"{name}.txt"
    FOLDER.mkdir(parents=True, exist_ok=True)
    listed.write_text("\n".join(constraints(name)) + "\n")
    run(sys.executable, "-m", "venv", "--clear", environment)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "-c", listed, "-e", f"{ROOT}[serve]", *TOOLS)
    run(python, "-m", "pip", "list")
    tests = [test for test in TESTS if (ROOT / test).exists()]
    run(python, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-W", "default", *PEERS, *tests)


def run(*command: object) -> None:
    subprocess.run(list(map(str, command)), cwd=ROOT, check=True)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ["oldest", "newest"]:
        print(f"== {chosen}", flush=True)
        test(chosen)
