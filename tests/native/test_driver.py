"""The compiled functions without Python: jobs, failing threads, failing allocations, forks."""

import shutil
import subprocess
from pathlib import Path

import pytest

from regard.native import library as native

DRIVER = Path(__file__).parent / "driver.cpp"

pytestmark = pytest.mark.skipif(
    native.library() is None or shutil.which("g++") is None, reason="there is no C++ compiler"
)


def test_driver_finds_nothing_wrong(tmp_path: Path) -> None:
    (library,) = Path(native.__file__).parent.glob("_native*.so")
    program = tmp_path / "driver"
    flags = ["-std=c++20", "-pthread", f"-Wl,-rpath,{library.parent}"]
    compiled = subprocess.run(
        ["g++", *flags, str(DRIVER), str(library), "-o", str(program)],
        capture_output=True,
        text=True,
    )
    assert compiled.returncode == 0, compiled.stderr
    done = subprocess.run([program, "0.5"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
