"""Files and folders that a command reads and writes, checked before it loads a model."""

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from regard.errors import ConfigError, DataError, OutputError, RunError
from regard.nearest import cannot_be_read
from regard.pretrained import located, no_such_run

STANDARD_INPUT = Path("-")
TEXT_OR_FILE = "text/file"  # of an argument for `texts_or_file`
FILE_NAME = re.compile(
    r"(?:/|\.\.?/|~/).*"  # begins as a path
    r"|\S*/\S*|\S*[^\s.]\.[A-Za-z]\w{0,7}",  # one word, in a folder or with an extension
    re.DOTALL,
)
# Files of a run folder, beside its weights.
RUN_FILES = (
    *("model.json", "tokenizer.json", "languages.json"),
    *("recipe.yaml", "training.json", "ledger.json", "metrics.jsonl"),
)


def check_inputs(*paths: Path | None) -> None:
    """Raise DataError for a file that cannot be read; `-` is standard input."""
    for path in paths:
        if path is None or path == STANDARD_INPUT:
            continue
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except OSError as error:
            raise DataError(cannot_be_read(path, error)) from None
        if is_folder:
            raise DataError(f"{path}: cannot be read (Is a directory); give a file.")
        if not os.access(path, os.R_OK):
            raise DataError(f"{path}: cannot be read (Permission denied).")


def texts_or_file(arguments: Sequence[str]) -> tuple[list[str], Path]:
    """Return the lines of texts that a command is given, or none and the file to read.

    One argument is a file if there is one of that name, or if it looks like the name of one: it
    begins as a path, or has no space, and a folder or an extension. Several arguments are texts.

    Raises:
        DataError: the file cannot be read, or there is a file among several arguments.
    """
    if not arguments:
        return [], STANDARD_INPUT
    if len(arguments) == 1 and _is_file_name(arguments[0]):
        path = Path(arguments[0])
        check_inputs(path)
        return [], path
    for argument in arguments:
        if argument == str(STANDARD_INPUT) or _exists(argument):
            raise DataError(f"{argument}: is a file; give it alone, or only texts.")
        check_text("TEXT", argument)
    return [line for text in arguments for line in text.split("\n")], STANDARD_INPUT


def check_text(name: str, text: str) -> None:
    """Raise ConfigError for a text whose bytes are not UTF-8."""
    for position, character in enumerate(text, start=1):
        if "\ud800" <= character <= "\udfff":
            raise ConfigError(
                f"{name}: character {position} is not valid UTF-8; convert the text to UTF-8 first."
            )


def _is_file_name(argument: str) -> bool:
    if argument == str(STANDARD_INPUT) or _exists(argument):
        return True
    return FILE_NAME.fullmatch(argument) is not None


def _exists(name: str) -> bool:
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # too long for a name, or with a null character
        return False


def check_exists(path: Path) -> None:
    """Raise DataError for a path that does not exist; `-` is standard input."""
    try:
        if path != STANDARD_INPUT:
            path.stat()
    except FileNotFoundError as error:
        raise DataError(cannot_be_read(path, error)) from None
    except (OSError, ValueError):  # reported where it is read
        pass


def check_run(run: Path) -> None:
    """Raise RunError for a folder that is missing, or holds neither a model nor a training."""
    run = located(run)
    if not run.is_dir():
        raise no_such_run(run)
    if not any((run / name).exists() for name in ("model.json", "training.json", "recipe.yaml")):
        raise RunError(f"{run}: there is no model.json in it, so it holds no model.")


def is_read_once(path: Path) -> bool:
    """Return whether a file can be read only once: standard input or a pipe."""
    return path == STANDARD_INPUT or not path.is_file()


def check_output(path: Path | None, run: Path | None, inputs: Sequence[Path] = ()) -> None:
    """Raise OutputError for a file that cannot be written, or that the command reads.

    Args:
        path: The file to write; None for standard output.
        run: The run folder that the command reads, if any.
        inputs: The other files that it reads.
    """
    if path is None:
        return
    folder = path.parent
    if path.is_dir():
        raise OutputError(f"{path}: cannot be written (Is a directory); give the name of a file.")
    if path.exists() and not path.is_file():
        raise OutputError(
            f"{path}: cannot be written, because it is no regular file; choose another, or "
            f"redirect standard output to it."
        )
    if not folder.is_dir():
        raise OutputError(
            f"{path}: cannot be written, because there is no folder {folder}; create it first."
        )
    if not os.access(folder, os.W_OK):
        raise OutputError(f"{path}: cannot be written (Permission denied); choose another folder.")
    if any(_is_same(path, file) for file in inputs):
        raise OutputError(f"{path}: is also the input; choose another file for the output.")
    if run is not None and _is_same(folder, run) and _belongs_to_run(path.name):
        raise OutputError(f"{path}: is a file of the model; choose another file for the output.")


def check_output_folder(folder: Path) -> None:
    """Raise OutputError for a folder that cannot be written, or that holds a model."""
    from regard import run_folder

    if run_folder.exists(folder):
        raise OutputError(f"{folder}: a model is there; choose another folder.")
    run_folder.check_writable(folder)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _belongs_to_run(name: str) -> bool:
    return name in RUN_FILES or (name.startswith("model") and name.endswith(".safetensors"))
