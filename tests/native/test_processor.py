"""The processor is tested by code that every x86 can run, before any AVX2 code is loaded."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regard.native import library as native

FOLDER = Path(native.__file__).parent

pytestmark = pytest.mark.skipif(native.library() is None, reason="nothing was compiled")


def disassembled(path: Path) -> dict[str, list[str]]:
    """Return the instructions of each function."""
    command = ["objdump", "--disassemble", "--demangle", "--no-show-raw-insn", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    functions: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"[0-9a-f]+ <(.+)>:", line):
            name = heading[1]
        elif "\t" in line:
            functions.setdefault(name, []).append(line.split("\t", 1)[1])
    return functions


def needs_avx(instruction: str) -> bool:
    """Return True for an instruction of AVX or later; their names begin with v, or are of BMI."""
    later = ("andn", "bextr", "blsi", "blsr", "mulx", "rorx", "sarx", "shlx", "shrx", "movbe")
    return instruction.startswith(("v", *later)) or re.search(r"%[yz]mm", instruction) is not None


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="not an x86")
def test_tests_of_the_processor_run_on_every_x86() -> None:
    (tests,) = FOLDER.glob("_processor*.so")
    (engine,) = FOLDER.glob("_native*.so")
    late = {
        name: [instruction for instruction in instructions if needs_avx(instruction)]
        for name, instructions in disassembled(tests).items()
    }
    assert not {name: found for name, found in late.items() if found}
    assert any(needs_avx(i) for all_ in disassembled(engine).values() for i in all_)


def test_native_library_is_not_loaded_by_an_older_processor() -> None:
    program = (
        "from pathlib import Path; from types import SimpleNamespace\n"
        "from regard.native import library as native\n"
        "older = SimpleNamespace(regard_processor_is_supported=lambda: 0)\n"
        "loaded, native.processor = native.processor(), lambda: older\n"
        "assert loaded and native.library() is None\n"
        "maps = Path('/proc/self/maps').read_text()\n"
        "assert '_processor' in maps and '_native.' not in maps, maps\n"
    )
    if not Path("/proc/self/maps").exists():
        pytest.skip("there is no /proc")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.library.__wrapped__() is not None
    monkeypatch.setattr(native, "INTERFACE", native.INTERFACE + 1)
    assert native.library.__wrapped__() is None
