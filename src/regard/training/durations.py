"""Durations as a user writes them: 90s, 20min, 1.5h."""

import re
from typing import Any

_UNITS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def seconds(value: Any) -> Any:
    """Convert "90s", "20min" or "1.5h" to seconds; return a number unchanged."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*([0-9.]+)\s*([a-z]*)\s*", value)
    if match is None or match[2] not in _UNITS or match[1].count(".") > 1 or match[1] == ".":
        raise ValueError("not a time; write 90s, 20min or 1.5h")
    return float(match[1]) * _UNITS[match[2]]
