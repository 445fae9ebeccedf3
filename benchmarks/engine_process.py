"""Run an engine in a process of its own: one script of benchmarks/engines/, by their protocol."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "engines"


def run_engine(
    script: str, work: Mapping[str, Any], folder: Path, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the result of an engine; files are exchanged in `folder`."""
    settings, out = folder / "work.json", folder / "out.json"
    settings.write_text(json.dumps(work, ensure_ascii=False), encoding="utf-8")
    command = [sys.executable, str(FOLDER / script), str(settings), str(out)]
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    if done.returncode:
        sys.exit(f"{script} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return result
