"""Make a wheel of `regard-runtime` from one of `regard`: the same files, other metadata.

    python .ci/runtime_wheel.py dist/regard-*.whl

It requires the modules that decode (`tool.regard.runtime` in pyproject.toml); the others, torch
among them, are its extra `full`.
"""

import base64
import hashlib
import re
import sys
import tomllib
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

ROOT = Path(__file__).parent.parent
NAME, EXTRA = "regard-runtime", "full"
NOT_OFFERED = ("dev", "docs")  # extras for work on the sources


def runtime_metadata(metadata: str, runtime: list[str]) -> str:
    """Return METADATA with another name, and with all but the runtime requirements in an extra."""
    headers, separator, description = metadata.partition("\n\n")
    lines = [
        _of_extra(line, runtime)
        for line in headers.split("\n")
        if not re.search(rf"^Provides-Extra: ({_either(NOT_OFFERED)})$", line)
        and not re.search(rf"extra == .({_either(NOT_OFFERED)}).$", line)
    ]
    lines = [f"Name: {NAME}" if line.startswith("Name: ") else line for line in lines]
    return "\n".join([*lines, f"Provides-Extra: {EXTRA}"]) + separator + description


def _of_extra(line: str, runtime: list[str]) -> str:
    match = re.fullmatch(r"Requires-Dist: ([\w.-]+)[^;]*", line)
    return f'{line}; extra == "{EXTRA}"' if match and match[1] not in runtime else line


def _either(names: tuple[str, ...]) -> str:
    return "|".join(names)


def runtime_wheel(wheel: Path) -> Path:
    """Write the wheel of `regard-runtime` beside one of `regard`; return its path."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    _, version, tags = wheel.stem.split("-", 2)
    old, new = (f"{name}-{version}.dist-info/" for name in ("regard", NAME.replace("-", "_")))
    target = wheel.with_name(f"{NAME.replace('-', '_')}-{version}-{tags}.whl")
    record = []
    with ZipFile(wheel) as source, ZipFile(target, "w", ZIP_DEFLATED) as copy:
        for item in source.infolist():
            content = source.read(item)
            item.filename = item.filename.replace(old, new)
            if item.filename == f"{new}RECORD":
                continue
            if item.filename == f"{new}METADATA":
                runtime = project["tool"]["regard"]["runtime"]
                content = runtime_metadata(content.decode(), runtime).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            record.append(f"{item.filename},sha256={digest},{len(content)}")
            copy.writestr(item, content, ZIP_DEFLATED)
        copy.writestr(f"{new}RECORD", "\n".join([*record, f"{new}RECORD,,", ""]))
    return target


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(runtime_wheel(Path(path)))
