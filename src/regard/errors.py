"""Every error a user can cause, in one small tree.

    RegardError
    ├── ConfigError     a recipe, an override or a combination of parts that cannot be
    ├── DataError       text that cannot be used: where it stands and why
    ├── RunError        a run folder that is missing, damaged or of another kind
    ├── OutputError     a place that cannot be written
    ├── TrainingError   training that did not work
    └── Interrupted     stopped on request, with everything saved

The message is one sentence: what is wrong, where, and what to do. The command line prints it
without a traceback and exits with 1.
"""


class RegardError(Exception):
    """Something the user can mend; its message is written for them."""


class ConfigError(RegardError):
    """A recipe, an override or a combination of parts that cannot be."""


class DataError(RegardError):
    """Text that cannot be used."""


class RunError(RegardError):
    """A run folder that is missing, damaged or of another kind."""


class OutputError(RegardError):
    """A place that cannot be written."""


class TrainingError(RegardError):
    """Training that did not work."""


class Interrupted(RegardError):  # noqa: N818  (it is no error)
    """Stopped on request, with everything saved; the message says how to go on."""
