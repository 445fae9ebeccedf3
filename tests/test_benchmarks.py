"""The page of the benchmarks has the figures and the text that the scripts compute."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def test_benchmark_page_equals_its_stored_results() -> None:
    pytest.importorskip("selenium")  # benchmarks/page.py imports it
    command = [sys.executable, str(BENCHMARKS / "report.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
