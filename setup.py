"""Builds what is compiled where there is a C++ compiler; Regard works without it too.

_processor    tests of the processor, for every processor
_native       everything else, for AVX2 on an x86: it is loaded where _processor allows it

Both are plain libraries, loaded with ctypes: one wheel serves every version of Python.
"""

import platform
from collections.abc import Sequence
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NATIVE = Path("src/regard/native")
FLAGS = ["-std=c++20", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


class BuildLibraries(build_ext):
    """Builds libraries without an interface to Python, under names without its version."""

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return list(ext.export_symbols)


class PlatformWheel(bdist_wheel):
    """Tags the wheel with the platform alone."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


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
    cmdclass={"build_ext": BuildLibraries, "bdist_wheel": PlatformWheel},
    ext_modules=[
        extension("_processor", ["processor.cpp", "amx.cpp"], ["-std=c++20", "-O2"]),
        extension(
            "_native",
            ["engine.cpp", "sparse.cpp"],
            [*FLAGS, "-march=x86-64-v3"] if IS_X86 else FLAGS,
        ),
    ],
)
