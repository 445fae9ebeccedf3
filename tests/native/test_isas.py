"""Kernels of every instruction set: chosen by name, equal within rounding, int8 sums exact."""

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from regard.engine.library import _declare_signatures
from regard.errors import ConfigError
from regard.native import library as native

LIBRARY = Path(native.__file__).parent / "_native.so"
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
X86 = ["avx512_vnni", "avx512", "avx_vnni", "avx2", "portable"]
Product = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]

pytestmark = pytest.mark.skipif(native.library() is None, reason="nothing was compiled")


@pytest.fixture(scope="module", params=X86 if IS_X86 else ["neon_dot", "neon", "portable"])
def product(request: pytest.FixtureRequest, emulated_library: Path) -> Product:
    """Products of a packed matrix by the kernels of one instruction set."""
    loaded = native._load(emulated_library.parent)
    assert loaded is not None
    _declare_signatures(loaded)
    native.use_isa(loaded, request.param)
    assert native.current_isa(loaded) == request.param

    def multiply(weights: np.ndarray, bias: np.ndarray, x: np.ndarray, bits: int) -> np.ndarray:
        packed = ctypes.c_void_p()
        outputs, inputs = weights.shape
        loaded.regard_matrix(
            weights.ctypes.data, bias.ctypes.data, outputs, inputs, bits, ctypes.byref(packed)
        )
        y = np.empty((len(x), outputs), np.float32)
        loaded.regard_apply(packed, x.ctypes.data, len(x), y.ctypes.data, 2)
        loaded.regard_free_matrix(packed)
        return y

    return multiply


SHAPES = [(16, 8), (50, 48), (33, 301), (1, 1), (64, 600)]
ROWS = [1, 2, 3, 4, 7, 12, 13, 100]


@pytest.mark.parametrize("shape", SHAPES)
def test_products_equal_numpy_in_any_batch(product: Product, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(1)
    weights, bias = (random.standard_normal(size, np.float32) for size in (shape, shape[0]))
    x = random.standard_normal((max(ROWS), shape[1]), np.float32)
    together = product(weights, bias, x, 32)
    expected = x.astype(np.float64) @ weights.T.astype(np.float64) + bias
    np.testing.assert_allclose(together, expected, rtol=1e-5, atol=1e-4)
    for rows in ROWS:
        assert np.array_equal(product(weights, bias, x[:rows], 32), together[:rows])


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_int8_are_exact(product: Product, shape: tuple[int, int]) -> None:
    """Integers that quantization keeps: inputs 0 to 255, weights −63 to 63."""
    random = np.random.default_rng(2)
    weights = random.integers(-63, 64, shape).astype(np.float32)
    weights[:, 0] = 63
    x = random.integers(0, 256, (max(ROWS), shape[1])).astype(np.float32)
    x[:, 0], x[:, -1] = 0, 255
    bias = np.zeros(shape[0], np.float32)
    expected = x.astype(np.int64) @ weights.T.astype(np.int64)
    if shape[1] == 1:  # a range of zero: every input is its lowest
        expected = np.full_like(expected, 255 * 63)
    for rows in ROWS:
        assert np.array_equal(product(weights, bias, x[:rows], 8), expected[:rows])


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_4_bits_are_exact(product: Product, shape: tuple[int, int]) -> None:
    """Numbers that quantization keeps: weights on 16 steps, whole inputs from −127 to 127."""
    random = np.random.default_rng(3)
    weights = random.integers(0, 16, shape).astype(np.float32) - 8
    x = random.integers(-127, 128, (max(ROWS), shape[1])).astype(np.float32)
    weights[:, ::32], weights[:, 1::32], x[:, ::32] = -8, 7, 127
    expected = x.astype(np.int64) @ weights.T.astype(np.int64)
    for rows in ROWS:
        outputs = product(weights, np.zeros(shape[0], np.float32), x[:rows], 4)
        assert np.array_equal(outputs, expected[:rows])


def test_extreme_int8_values_do_not_saturate(product: Product) -> None:
    weights = np.stack([np.full(256, 63, np.float32), np.full(256, -63, np.float32)])
    x = np.full((13, 256), 255, np.float32)
    x[:, 0] = 0
    outputs = product(weights, np.zeros(2, np.float32), x, 8)
    assert np.array_equal(outputs, np.tile([[255.0 * 255 * 63, -255.0 * 255 * 63]], (13, 1)))


def test_the_best_is_used_and_another_by_name() -> None:
    loaded = native.library()
    assert loaded is not None
    names = native.supported_isas(loaded)
    assert names[-1] == "portable"
    program = "from regard.native.library import *; print(current_isa(library()))"
    for name in ["", *names]:
        environment = {key: value for key, value in os.environ.items() if key != native.ISA}
        environment |= {native.ISA: name} if name else {}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == (name or names[0])


def test_unknown_name_is_refused_in_one_sentence() -> None:
    loaded = native.library()
    assert loaded is not None
    with pytest.raises(
        ConfigError, match=r"REGARD_ISA is 'mmx'; this processor executes .*portable"
    ):
        native.use_isa(loaded, "mmx")
    command = [sys.executable, "-m", "regard", "translate", "fr-en", "Merci."]
    environment = {**os.environ, native.ISA: "mmx"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("regard: REGARD_ISA is 'mmx'")
    assert len(done.stderr.splitlines()) == 1


def test_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native._load() is not None
    monkeypatch.setattr(native, "INTERFACE", native.INTERFACE + 1)
    assert native._load() is None


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
    return (
        re.match(
            r"v|(andn|bextr|blsi|blsr|mulx|rorx|sarx|shlx|shrx|movbe)\s|.*%[yz]mm", instruction
        )
        is not None
    )


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
@pytest.mark.skipif(not IS_X86, reason="not an x86")
def test_instructions_of_a_set_are_only_in_its_kernels() -> None:
    """All other functions run on every x86: the linker merged none of them with a kernel's."""
    users = {
        re.sub(r".*regard::(avx\w+)::.*", r"\1", name)
        for name, instructions in disassembled(LIBRARY).items()
        if any(map(needs_avx, instructions))
    }
    assert users - {"multiply_tiles"} == set(X86[:-1])
