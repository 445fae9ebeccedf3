"""Builds the compiled library where there is a C++ compiler; Regard works without it too.

It has kernels for several instruction sets (src/regard/native/kernels), each compiled with its own
flags, and chooses among them when it is loaded: one wheel serves every processor of a platform. It
is a plain library, loaded with ctypes: one wheel serves every version of Python.

REGARD_EMULATE compiles all of them for AVX2, for tests on processors without the others.
REGARD_OPTIMIZE=-O1 compiles in less time than the default, -O3.
"""

import os
import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NATIVE = Path("src/regard/native")
KERNEL_SOURCES = sorted((NATIVE / "kernels").glob("*.cpp"))
OPTIMIZE = os.environ.get("REGARD_OPTIMIZE", "-O3")
# Only the interface is exported: no function of another copy in the process replaces one of this.
FLAGS = ["-std=c++20", OPTIMIZE, "-fvisibility=hidden"]
FLAGS += ["-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
EMULATE = ["-DREGARD_EMULATE", "-Wno-psabi"] if os.environ.get("REGARD_EMULATE") else []
X86 = {
    "avx2": ["-march=x86-64-v3"],
    "avx_vnni": ["-march=x86-64-v3", "-mavxvnni"],
    "avx512": ["-march=x86-64-v4"],
    "avx512_vnni": ["-march=x86-64-v4", "-mavx512vnni"],
}
ARM = {"neon_dot": ["-march=armv8.2-a+dotprod"]}
KERNELS = {"x86_64": X86, "amd64": X86, "aarch64": ARM, "arm64": ARM}.get(
    platform.machine().lower(), {}
)
if EMULATE:
    KERNELS = dict.fromkeys(KERNELS, KERNELS.get("avx2", []))


class BuildLibrary(build_ext):
    """Builds a library without an interface to Python, under a name without its version."""

    def build_extension(self, ext: Extension) -> None:
        """Compile the kernels of each instruction set with its flags, then the rest."""
        for path in KERNEL_SOURCES:
            flags = [*ext.extra_compile_args, *KERNELS.get(path.stem, [])]
            ext.extra_objects += self.compiler.compile(
                [path.as_posix()], self.build_temp, extra_postargs=flags, depends=ext.depends
            )
        super().build_extension(ext)

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return list(ext.export_symbols)


class PlatformWheel(bdist_wheel):
    """Tags the wheel with the platform alone."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": PlatformWheel},
    ext_modules=[
        Extension(
            "regard.native._native",
            [path.as_posix() for path in sorted(NATIVE.glob("*.cpp"))],
            depends=[path.as_posix() for path in sorted([*NATIVE.rglob("*.h"), *KERNEL_SOURCES])],
            extra_compile_args=[*FLAGS, *EMULATE],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ],
)
