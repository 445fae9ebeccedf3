"""Write results as JSON and as tables into docs/explanation/benchmarks.md."""

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "explanation" / "benchmarks.md"
RESULTS = DOCS / "explanation" / "benchmarks"


def write_results(name: str, result: Mapping[str, Any], section: str) -> None:
    """Write `result` to RESULTS/NAME.json and replace its section in the page."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    begin, end = f"<!-- {name}: written by benchmarks/{name}.py -->", f"<!-- end of {name} -->"
    page = PAGE.read_text(encoding="utf-8")
    above, _, rest = page.partition(begin)
    _, _, below = rest.partition(end)
    if not rest:
        above, below = page.rstrip() + "\n\n", "\n"
    PAGE.write_text(f"{above}{begin}\n{section.strip()}\n{end}{below}", encoding="utf-8")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are right-aligned."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> dict[str, Any]:
    """Return the instruction set, threads and versions of this process."""
    import torch

    return {
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
