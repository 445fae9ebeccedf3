"""Builds what is compiled where there is a C++ compiler; Regard works without it too.

_processor    tests of the processor, for every processor
_native       everything else, for AVX2 on an x86: it is loaded where _processor allows it
"""

import platform
from collections.abc import Sequence
from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("src/regard/native")
FLAGS = ["-std=c++20", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


def extension(name: str, sources: Sequence[str], flags: Sequence[str]) -> Extension:
    return Extension(
        f"regard.native.{name}",
        [(NATIVE / source).as_posix() for source in sources],
        depends=[path.as_posix() for path in sorted(NATIVE.glob("*.h"))],
        extra_compile_args=list(flags),
        extra_link_args=["-pthread"],
        optional=True,
    )


setup(
    ext_modules=[
        extension("_processor", ["processor.cpp", "amx.cpp"], ["-std=c++20", "-O2"]),
        extension(
            "_native",
            ["engine.cpp", "sparse.cpp"],
            [*FLAGS, "-march=x86-64-v3"] if IS_X86 else FLAGS,
        ),
    ]
)
