"""Write results as JSON and as tables into a page of docs/explanation/.

    benchmarks.md    speed, memory and quality             results in benchmarks/NAME.json
    robustness.md    campaigns: kill, hostile files and requests, soak   in robustness/NAME.json

    python benchmarks/report.py              write all sections again from the stored results
    python benchmarks/report.py --check      exit with 1 if a page differs from them

Nothing is measured: use it after changing the text of a section.
"""

import argparse
import importlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {name: DOCS / "explanation" / f"{name}.md" for name in ("benchmarks", "robustness")}


def write_results(
    name: str, result: Mapping[str, Any], section: str, page: str = "benchmarks"
) -> None:
    """Write `result` to PAGE/NAME.json and replace its section in the page."""
    path = _path(name, page)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = PAGES[page].read_text(encoding="utf-8")
    PAGES[page].write_text(replace_section(text, name, section), encoding="utf-8")


def with_stored_rows(name: str, measured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the stored results by instruction set, with these rows of the one of this process.

    Rows of the same name are replaced; the other rows and instruction sets stand as measured.
    """
    path, host = _path(name), machine()
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows = results.get(host["isa"], {"rows": []})["rows"]
    by_name = {row["name"]: row for row in [*rows, *measured]}
    return {**results, host["isa"]: {"machine": host, "rows": list(by_name.values())}}


def isa_name(isa: str) -> str:
    """Return the usual name of an instruction set of the engine: AVX-512 VNNI."""
    return isa.upper().replace("_", " ").replace("AVX512", "AVX-512")


def summary(
    title: str,
    results: Mapping[str, Any],
    columns: Mapping[str, str],
    cell: Callable[[Mapping[str, Any], str], str],
) -> str:
    """Return a table with a line for each row, and columns for each instruction set.

    Args:
        title: head of the first column.
        results: rows by instruction set, of `with_stored_rows`.
        columns: engines by the name of their column.
        cell: the text for the engines of a row, of which there may be none, and an engine's name.
    """
    head = [title, *(f"{isa_name(isa)}: {column}" for isa in results for column in columns)]
    parts = [{row["name"]: row["engines"] for row in result["rows"]} for result in results.values()]
    lines = [
        [name] + [cell(part.get(name, {}), own) for part in parts for own in columns.values()]
        for name in dict.fromkeys(name for part in parts for name in part)
    ]
    return table(head, lines)


def describe_machine(host: Mapping[str, Any]) -> str:
    """Return a sentence with the processor and the versions."""
    processor = f"{host['processor']}, " if "processor" in host else ""
    return f"{processor}torch {host['torch']}, Python {host['python']}."


def _path(name: str, page: str = "benchmarks") -> Path:
    return PAGES[page].with_suffix("") / f"{name}.json"


def replace_section(page: str, name: str, section: str) -> str:
    """Return the page with the section of a script replaced, or appended."""
    begin, end = f"<!-- {name}: written by benchmarks/{name}.py -->", f"<!-- end of {name} -->"
    above, _, rest = page.partition(begin)
    _, _, below = rest.partition(end)
    if not rest:
        above, below = page.rstrip() + "\n\n", "\n"
    return f"{above}{begin}\n{section.strip()}\n{end}{below}"


def from_stored_results(page: Path) -> str:
    """Return the page with every section computed from its stored results."""
    text = page.read_text(encoding="utf-8")
    for path in sorted(page.with_suffix("").glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        section = importlib.import_module(path.stem).describe(result)
        text = replace_section(text, path.stem, section)
    return text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are right-aligned."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> dict[str, Any]:
    """Return the processor, instruction sets, threads and versions of this process."""
    import torch

    from regard.native.library import current_isa, library

    engine = library()
    return {
        "processor": _processor(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "isa": "none" if engine is None else current_isa(engine),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _processor() -> str:
    """Return the name of the processor, with its family and model where the name is not one."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:  # not Linux
        return platform.processor()
    about = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    family = [f"{key} {about[key]}" for key in ("cpu family", "model") if key in about]
    return ", ".join([about.get("model name", platform.machine()), *family])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; write nothing")
    options = parser.parse_args()
    for page in PAGES.values():
        text = from_stored_results(page)
        if not options.check:
            page.write_text(text, encoding="utf-8")
        elif text != page.read_text(encoding="utf-8"):
            raise SystemExit(f"{page}: differs from the stored results; run benchmarks/report.py.")


if __name__ == "__main__":
    main()
