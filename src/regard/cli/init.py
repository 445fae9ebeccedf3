"""regard init: look at a user's files and write a first recipe for them."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from regard.cli._shared.streams import echo


class Task(StrEnum):
    """A task that a recipe can be drafted for."""

    TRANSLATION = "translation"
    SUMMARIZATION = "summarization"
    CLASSIFICATION = "classification"
    LANGUAGE_MODEL = "language-model"
    MASKED_LM = "masked-lm"
    SPAN_CORRUPTION = "span-corruption"


def init(
    task: Annotated[Task, typer.Argument(help="What to train for.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Training data: a table (tab-separated, CSV, JSON lines, Parquet, .po), two "
            "parallel files, plain text, or a file for each label; gzip or plain."
        ),
    ],
    dev: Annotated[
        list[Path] | None,
        typer.Option(help="Dev data in the same format (default: held out of the training data)."),
    ] = None,
    test: Annotated[list[Path] | None, typer.Option(help="Test data in the same format.")] = None,
    budget: Annotated[
        str | None, typer.Option(help="Time to train, as 90s, 20min or 2h (default: 20min).")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Recipe to write.")] = Path(
        "recipe.yaml"
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing recipe.")
    ] = False,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Write the recipe without checking it.")
    ] = False,
) -> None:
    """Write a first recipe for your own data, with comments, and check it.

    The format, the columns, the labels and the languages are recognized from a sample of the file;
    vocabulary, lengths and the size of the model are fitted to it.
    """
    _check_arguments(files, dev or [], test or [], budget, output, overwrite)
    from regard.atomic import write_atomic
    from regard.cli._shared.console import reporter
    from regard.data.recognition.recognize import recognize_files

    report = reporter()
    with report.counting("lines") as progress:
        data = recognize_files(
            task, files, dev or (), test or (), lambda more: progress("Reading", more)
        )
    for finding in data.train.findings:
        echo(finding)
    for doubt in data.train.doubts:
        echo(f"Warning: {doubt}", err=True)
    from regard.training.drafting.draft import draft  # imports torch

    with report.busy("Fitting sizes to the data …"):
        recipe = draft(data, budget)
    write_atomic(output, recipe.encode())
    echo(f"The recipe is {output}.")
    if not no_check:
        from regard.cli.check import check

        check(output)
    echo(f"Next: regard train {shlex.quote(str(output))}")


def _check_arguments(
    files: list[Path],
    dev: list[Path],
    test: list[Path],
    budget: str | None,
    output: Path,
    overwrite: bool,
) -> None:
    from regard.cli._shared.files import check_exists, check_output
    from regard.errors import ConfigError, DataError, OutputError
    from regard.training.durations import seconds

    for path in (*files, *dev, *test):
        if path == Path("-"):
            raise DataError("-: a recipe names its files; write standard input to one first.")
        if not str(path).isprintable():
            raise DataError(f"{str(path)!r}: a recipe cannot name this file; rename it first.")
        check_exists(path)
    if budget is not None:
        try:
            positive = seconds(budget) > 0
        except ValueError as error:
            raise ConfigError(f"--budget {budget}: {error}.") from None
        if not positive:
            raise ConfigError(f"--budget {budget}: give a time above 0, as 20min.")
    check_output(output, None, (*files, *dev, *test))
    if output.exists() and not overwrite:
        raise OutputError(
            f"{output}: is there already; --overwrite replaces it, -o writes another file."
        )
