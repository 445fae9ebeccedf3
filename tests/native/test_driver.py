"""The compiled functions without Python: jobs, failing threads, failing allocations, forks."""

import shutil
import subprocess
from pathlib import Path

import pytest

from regard.native import library as native

DRIVER = Path(__file__).parent / "driver.cpp"
NATIVE = Path(native.__file__).parent
LIBRARY = NATIVE / "_native.so"

pytestmark = pytest.mark.skipif(
    native.library() is None or shutil.which("g++") is None, reason="there is no C++ compiler"
)


def compiled(compiler: str, flags: list[str], objects: list[Path], program: Path) -> Path:
    """Compile the driver with some objects."""
    command = [compiler, "-std=c++20", "-pthread", *flags, DRIVER, *objects, "-o", program]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def instruction_sets(*command: object) -> list[str]:
    """Run the driver; return the instruction sets that it has tried."""
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    calls, *names = done.stdout.split()
    assert int(calls) >= 0
    return names


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")
def test_only_the_interface_is_exported() -> None:
    """Another copy of the library in the process must not replace a function of this one."""
    command = ["nm", "-D", "--defined-only", "--format=just-symbols", str(LIBRARY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert "regard_decode" in names
    assert [name for name in names if name.startswith(("_ZN6regard", "_ZNK6regard"))] == []


@pytest.mark.parametrize("emulated", [False, True])
def test_driver_finds_nothing_wrong(
    request: pytest.FixtureRequest, tmp_path: Path, emulated: bool
) -> None:
    library = request.getfixturevalue("emulated_library") if emulated else LIBRARY
    flags = [f"-Wl,-rpath,{library.parent}"]
    names = instruction_sets(compiled("g++", flags, [library], tmp_path / "driver"), 0.5)
    assert names[-1] == "portable"
    assert len(names) >= 2 + emulated


@pytest.mark.skipif(
    not shutil.which("qemu-aarch64") or not shutil.which("aarch64-linux-gnu-g++"),
    reason="qemu-user and g++-aarch64-linux-gnu are not installed",
)
def test_driver_finds_nothing_wrong_on_arm64(tmp_path: Path) -> None:
    """Under qemu, without forks, which it does not survive with threads."""
    compiler, flags = "aarch64-linux-gnu-g++", ["-std=c++20", "-O1", "-fno-math-errno"]
    kernels = [NATIVE / "kernels" / f"{name}.cpp" for name in ("portable", "neon")]
    sources = [*NATIVE.glob("*.cpp"), *kernels]
    dot = tmp_path / "neon_dot.o"
    command = [compiler, *flags, "-march=armv8.2-a+dotprod", "-c", NATIVE / "kernels/neon_dot.cpp"]
    subprocess.run([*command, "-o", dot], check=True)
    program = compiled(compiler, [*flags, "-static"], [*sources, dot], tmp_path / "driver")
    assert instruction_sets("qemu-aarch64", program, 0) == ["neon_dot", "neon", "portable"]
    without = ["qemu-aarch64", "-cpu", "cortex-a53", program, 0]
    assert instruction_sets(*without) == ["neon", "portable"]
