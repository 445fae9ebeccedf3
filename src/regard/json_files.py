"""JSON files from a user's disk: read with limits, described by types, errors in one sentence.

`json.loads` alone accepts a key that is given twice, NaN and halves of characters, and fails with
ValueError, RecursionError or UnicodeDecodeError where a file is damaged.
"""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from regard.config import explain, shortened
from regard.errors import RegardError, RunError

MAX_BYTES = 1 << 28  # of a file, where a reader gives no limit of its own
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class JsonSpec(BaseModel):
    """The description of a JSON file: typed and frozen; other keys are left alone."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False, defer_build=True
    )


D = TypeVar("D", bound=JsonSpec)


class _JsonError(ValueError):
    """JSON that another reader might accept."""


def read_json(
    path: Path, max_bytes: int = MAX_BYTES, error: type[RegardError] = RunError, finite: bool = True
) -> Any:
    """Read a JSON file; any damage raises `error` with one sentence.

    Args:
        path: The file.
        max_bytes: Size from which the file is refused without reading it.
        error: The exception to raise.
        finite: Refuse NaN and Infinity (default: True).
    """
    try:
        if (size := path.stat().st_size) > max_bytes:
            raise error(
                f"{path}: has {size:,} bytes and may have at most {max_bytes:,}; is it the right "
                f"file?"
            )
        data = path.read_bytes()
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror}).") from None
    return parse_json(data, str(path), error, finite)


def parse_json(
    data: bytes | str, where: str, error: type[RegardError] = RunError, finite: bool = True
) -> Any:
    """Parse JSON; a key given twice, a number that is not finite or half a character is an error.

    Args:
        data: The JSON, as UTF-8 or as text.
        where: The file or line, for the error message.
        error: The exception to raise.
        finite: Refuse NaN and Infinity (default: True).
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        content = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_float=_finite_float if finite else None,
            parse_constant=_refuse_constant if finite else None,
        )
        if _SURROGATE.search(text):
            json.dumps(content, ensure_ascii=False).encode()
    except RecursionError:
        raise error(f"{where}: not readable as JSON: it is nested too deeply.") from None
    except UnicodeEncodeError:
        raise error(f"{where}: has half of a surrogate pair; write whole characters.") from None
    except UnicodeDecodeError as problem:
        raise error(f"{where}: not UTF-8 (at byte {problem.start:,}).") from None
    except ValueError as problem:
        raise error(f"{where}: not valid JSON ({shortened(str(problem), 200)}).") from None
    return content


def validate_json(
    description: type[D],
    content: Any,
    where: str,
    error: type[RegardError] = RunError,
    section: str = "",
) -> D:
    """Return the content as described; an error names the file and the key in one sentence.

    Args:
        description: Types of the content.
        content: What the file, or a section of it, contains.
        where: The file, for the error message.
        error: The exception to raise.
        section: The key of the section, with a dot (default: the whole file).
    """
    try:
        return description.model_validate(content)
    except ValidationError as problem:
        raise error(
            f"{where}: {section}{explain(problem)}; the file is damaged or was changed by hand: "
            f"restore it."
        ) from None


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise _JsonError(f"the key {shortened(key)!r} is given twice")
        content[key] = value
    return content


def _finite_float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise _JsonError(f"the number {shortened(text)} is too large")
    return value


def _refuse_constant(text: str) -> float:
    raise _JsonError(f"{text} is not a number in JSON")
