"""Build Regard with sanitizers and run the tests of its compiled functions (make sanitize).

    python benchmarks/sanitizers.py              all sanitizers
    python benchmarks/sanitizers.py thread       one of them

For each, into build/sanitize/NAME: the package with its libraries compiled under the sanitizer, and
tests/native/driver.cpp. Then the driver runs, and pytest over the compiled functions with the
sanitizer's runtime preloaded into Python. The first report ends the process with an error.

torch and Python are not instrumented: ThreadSanitizer reports races only where an instrumented
module takes part, and leaks are not counted.
"""

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = [
    "tests/native",
    "tests/engine",
    "tests/attention/test_sparse_kernel.py",
    "tests/serving/batching",  # many threads
]
# Too slow or too large under a sanitizer: they limit the memory of a child, or compile.
LEFT_OUT = "not memory and not driver and not processor and not bfloat16"
SECONDS = 5  # of the driver


@dataclass(frozen=True)
class Sanitizer:
    """Flags of the compiler, the runtime library and the options of its reports."""

    name: str
    flags: tuple[str, ...]
    runtime: str
    symbol: str  # called by instrumented code
    options: dict[str, str]

    @property
    def folder(self) -> Path:
        return ROOT / "build" / "sanitize" / self.name

    def environment(self) -> dict[str, str]:
        """Return the environment in which Python uses the instrumented package."""
        names = (self.runtime, "libstdc++.so")  # the second finds functions of the first
        paths = (Path(_output("g++", f"-print-file-name={name}")).resolve() for name in names)
        return {
            **os.environ,
            **self.options,
            "LD_PRELOAD": " ".join(map(str, paths)),
            "PYTHONPATH": str(self.folder),
            "OMP_NUM_THREADS": "1",
            "PYTHONMALLOC": "malloc",  # a block for each object, which the sanitizer checks
        }


SANITIZERS = {
    "address": Sanitizer(
        "address",
        (
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=undefined",
            "-D_GLIBCXX_ASSERTIONS",
        ),
        "libasan.so",
        "__asan_report_load4",
        {
            "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        },
    ),
    "thread": Sanitizer(
        "thread",
        ("-fsanitize=thread",),
        "libtsan.so",
        "__tsan_atomic32_load",
        {
            "TSAN_OPTIONS": "die_after_fork=0:halt_on_error=1:ignore_noninstrumented_modules=1:"
            "report_thread_leaks=0"
        },
    ),
}


def build(sanitizer: Sanitizer) -> None:
    """Build the package and the driver."""
    shutil.rmtree(sanitizer.folder, ignore_errors=True)
    flags = " ".join([*sanitizer.flags, "-g", "-fno-omit-frame-pointer"])
    compiler = {"CFLAGS": flags, "CXXFLAGS": flags, "LDFLAGS": sanitizer.flags[0]}
    # With -O3 each kernel file takes minutes, because it checks every access of unrolled loops.
    environment = {**os.environ, **compiler, "REGARD_OPTIMIZE": "-O1"}
    folder = str(sanitizer.folder)
    command = [sys.executable, "setup.py", "-q", "build", "--build-lib", folder]
    command += ["--build-temp", f"{folder}/objects"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    (library,) = (sanitizer.folder / "regard" / "native").glob("_native*.so")
    if sanitizer.symbol not in _output("nm", "--dynamic", str(library)):
        sys.exit(f"{library} does not call {sanitizer.symbol}: it was not instrumented")
    command = ["g++", "-std=c++20", "-O1", "-pthread", *flags.split(), "tests/native/driver.cpp"]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-o", f"{folder}/driver"]
    subprocess.run(command, cwd=ROOT, check=True)


def test(sanitizer: Sanitizer) -> None:
    """Run the driver and the tests of the compiled functions."""
    environment = {**os.environ, **sanitizer.options}
    subprocess.run([sanitizer.folder / "driver", str(SECONDS)], env=environment, check=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    subprocess.run([*command, "-k", LEFT_OUT], cwd=ROOT, env=sanitizer.environment(), check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(SANITIZERS), help="address, thread")
    for name in parser.parse_args().names:
        print(f"== {name}", flush=True)
        build(SANITIZERS[name])
        test(SANITIZERS[name])


if __name__ == "__main__":
    main()
