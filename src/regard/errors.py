"""Exceptions for errors that a user can fix, in one small tree.

    RegardError
    ├── ConfigError     an invalid recipe, override or combination of settings
    ├── DataError       data that cannot be used: where and why
    ├── RunError        a run folder that is missing, damaged or of another task
    ├── OutputError     a file or folder that cannot be written
    ├── TrainingError   training that failed
    ├── Interrupted     stopped on request, with everything saved
    └── MissingModuleError   a module that is not installed; also a ModuleNotFoundError

The message is one sentence: where, what is wrong, what to do. The command line prints it without a
traceback and exits with code 1.
"""


class RegardError(Exception):
    """An error that the user can fix; its message says how."""


class ConfigError(RegardError):
    """An invalid recipe, override or combination of settings."""


class DataError(RegardError):
    """Data that cannot be used."""


class RunError(RegardError):
    """A run folder that is missing, damaged or of another task."""


class OutputError(RegardError):
    """A file or folder that cannot be written."""


class TrainingError(RegardError):
    """Training that failed."""


class Interrupted(RegardError):  # noqa: N818  (not an error)
    """Stopped on request, with everything saved; the message says how to resume."""


class MissingModuleError(RegardError, ModuleNotFoundError):
    """A module that is not installed; the message says how to install it."""


def shortened(text: str, most: int = 80) -> str:
    """Return a text in one line, cut after `most` characters."""
    line = " ".join(text[: 2 * most].split())
    return line if len(text) <= 2 * most and len(line) <= most else line[: most - 1] + "…"
