"""Render chat templates in a process of its own, with limits of time, memory and files.

A template comes with a model, so it may be hostile. The sandbox of jinja2 keeps it from Python's
internals; the limits of the process end its loops and its memory, and leave it no files to open.

    stdin    {"template": "…", "variables": {…}}    one a line
    stdout   {"text": "…"} or {"error": "…"}        one a line, in the same order
"""

import json
import signal
import sys
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

import jinja2.debug  # noqa: F401  (imported when a template fails, which would need files)
from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_SECONDS = 1.0  # of computation, for one text
MAX_BYTES = 256 << 20  # of memory
MAX_CHARACTERS = 1 << 22  # of a text
TYPICAL = "{{ strftime_now('%d %B %Y\n') | trim | tojson }}"


def main() -> None:
    """Render texts until the end of the input."""
    render(TYPICAL, {})  # Python reads the files that it needs
    for kind, most in (("AS", MAX_BYTES), ("NOFILE", 0), ("FSIZE", 0)):
        _limit(kind, most)
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)  # then the system ends this process
        print(json.dumps(_answer(json.loads(line))), flush=True)


def _answer(request: dict[str, Any]) -> dict[str, str]:
    try:
        return {"text": render(request["template"], request["variables"])}
    except MemoryError:
        return {"error": "it takes too much memory"}
    except Exception as error:  # a template can raise any
        return {"error": str(error) or type(error).__name__}


def render(template: str, variables: dict[str, Any]) -> str:
    """Return the text of a template.

    Raises:
        TemplateError: The template is no template, refuses the variables, or is too long.
    """
    parts, size = [], 0
    for part in _compiled(template).generate(**variables):
        parts.append(part)
        size += len(part)
        if size > MAX_CHARACTERS:
            raise TemplateError(f"its text has more than {MAX_CHARACTERS:,} characters")
    return "".join(parts)


@lru_cache(16)
def _compiled(template: str) -> Template:
    """Compile a template as transformers does."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals = {
        "range": environment.globals["range"],
        "namespace": environment.globals["namespace"],
        "dict": lambda **items: items,
        "raise_exception": _raise_exception,
        "strftime_now": lambda form: datetime.now().strftime(form),
    }
    return environment.from_string(template)


def _to_json(value: Any, indent: int | None = None, **settings: Any) -> str:
    """Return a value as JSON; jinja2's own filter would escape it for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent, **settings)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _limit(kind: str, most: int) -> None:
    """Limit a resource of this process, where the system can."""
    with suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        resource.setrlimit(getattr(resource, f"RLIMIT_{kind}"), (most, most))


if __name__ == "__main__":
    main()
