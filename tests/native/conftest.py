"""A library with the kernels of all instruction sets of this architecture, emulated."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def emulated_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library with all kernels, the instructions of other processors emulated."""
    if shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("emulated")
    command = [sys.executable, "setup.py", "-q", "build_ext"]
    command += ["--build-lib", str(folder), "--build-temp", str(folder / "objects")]
    environment = {**os.environ, "REGARD_EMULATE": "1", "REGARD_OPTIMIZE": "-O1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "regard" / "native" / "_native.so"
