"""Builds the decoding engine where there is a C++ compiler; Regard works without it too."""

import platform

from setuptools import Extension, setup

flags = ["-std=c++20", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
if platform.machine().lower() in ("x86_64", "amd64"):
    flags.append("-march=x86-64-v3")  # AVX2 and FMA; the engine asks before it is used

setup(
    ext_modules=[
        Extension(
            "regard.engine._engine",
            ["src/regard/engine/engine.cpp"],
            extra_compile_args=flags,
            extra_link_args=["-pthread"],
            optional=True,
        )
    ]
)
