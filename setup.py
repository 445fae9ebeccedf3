"""Builds what is compiled where there is a C++ compiler; Regard works without it too."""

import platform
from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("src/regard/native")
flags = ["-std=c++20", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
if platform.machine().lower() in ("x86_64", "amd64"):
    flags.append("-march=x86-64-v3")  # AVX2 and FMA; the processor is asked before it is used

setup(
    ext_modules=[
        Extension(
            "regard.native._native",
            [path.as_posix() for path in sorted(NATIVE.glob("*.cpp"))],
            depends=[path.as_posix() for path in sorted(NATIVE.glob("*.h"))],
            extra_compile_args=flags,
            extra_link_args=["-pthread"],
            optional=True,
        )
    ]
)
