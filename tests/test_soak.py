"""The soak of benchmarks/soak.py, for two seconds and without sanitizers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.native.library import library

SOAK = Path(__file__).parent.parent / "benchmarks" / "soak.py"


@pytest.mark.skipif(library() is None, reason="nothing was compiled")
@pytest.mark.skipif(sys.platform != "linux", reason="it forks with threads")
def test_threads_and_forks_decode_the_same_tokens() -> None:
    command = [sys.executable, str(SOAK), "--work", "--seconds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["calls"] > 0
    assert counts["forks"] > 0
