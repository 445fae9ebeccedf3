"""Modules that are not installed: one sentence that says what needs them and what to install.

The distribution `regard` requires all modules; `regard-runtime`, the same package, requires those
that decode, and the others in its extra `full`. The metadata of the installed one say what to do.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from regard.errors import MissingModuleError

DISTRIBUTIONS = ("regard", "regard-runtime")
REQUIREMENT = re.compile(r"([\w.-]+)(?:.*extra == ['\"]([\w-]+)['\"])?")  # its name and its extra


@contextmanager
def required_by(user: str) -> Iterator[None]:
    """Raise MissingModuleError where a module that `user` needs is not installed.

    Args:
        user: A command or function.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_module(error, user) or error from None


def missing_module(error: ModuleNotFoundError, user: str) -> MissingModuleError | None:
    """Return the error that says what to install, or None for a module that Regard never needs."""
    module = (error.name or "").partition(".")[0]
    command = install_command(module)
    if command is None:
        return None
    message = f"{user} needs {module}, which is not installed: {command}."
    return MissingModuleError(message, name=module)


def install_command(module: str) -> str | None:
    """Return the command that installs a module, or None for one that Regard never needs."""
    from importlib.metadata import PackageNotFoundError, requires

    for distribution in DISTRIBUTIONS:
        try:
            requirements = requires(distribution) or ()
        except PackageNotFoundError:
            continue
        parts = (match.groups() for match in map(REQUIREMENT.match, requirements) if match)
        extras = {_normalized(name): extra for name, extra in reversed(list(parts))}
        if _normalized(module) not in extras:
            return None
        extra = extras[_normalized(module)]
        return f"pip install '{distribution}[{extra}]'" if extra else f"pip install {distribution}"
    return f"pip install {module}" if module not in ("", "regard") else None  # not installed itself


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
