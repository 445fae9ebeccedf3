"""regard embed: sentence embeddings and their cosine similarities."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli._shared.files import STANDARD_INPUT, check_inputs, check_output
from regard.cli._shared.options import Int4, Int8, bits_of
from regard.cli._shared.streams import echo

if TYPE_CHECKING:
    from regard.predictors.embedder import Vectors

SUFFIXES = (".npy", ".safetensors")
MAX_TABLE_LINES = 12  # more lines do not fit in a table
NEAREST_PAIRS = 20  # printed for more lines


def embed(
    run: Annotated[Path, typer.Argument(help="Run folder of an encoder.")],
    file: Annotated[
        Path, typer.Argument(help="Text file, one text a line; - is standard input.")
    ] = Path("-"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each text and its vector as JSON.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write a file: vectors.npy or vectors.safetensors."),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help=f"Print cosine similarities: a table for up to {MAX_TABLE_LINES} lines, else the "
            f"{NEAREST_PAIRS} nearest pairs.",
        ),
    ] = False,
    int8: Int8 = False,
    int4: Int4 = False,
) -> None:
    """Print an embedding vector for each line; a text that is too long is refused."""
    from regard.cli._shared.progress import progress_bar
    from regard.data.sources.lines import read_lines
    from regard.errors import ConfigError, DataError

    if as_json + compare + (output is not None) > 1:
        raise ConfigError("--json, --output and --compare exclude each other: give one.")
    if output is not None and output.suffix not in SUFFIXES:
        raise ConfigError(f"--output {output}: the name must end with {' or '.join(SUFFIXES)}.")
    check_inputs(file)
    check_output(output, run, [file])

    from regard.loading import load_embedder

    reader = load_embedder(run, bits=bits_of(int8, int4))
    lines = read_lines(file)
    if not lines or (compare and len(lines) < 2):
        where = "standard input" if file == STANDARD_INPUT else file
        raise DataError(
            f"{where}: there is only one text, and nothing to compare it with."
            if lines
            else f"{where}: there is no text in it."
        )
    with progress_bar("Embedding", len(lines), "lines") as show:
        vectors = reader.vectors(lines, show)
    if output is not None:
        _write(vectors, output)
    elif compare:
        _compare(lines, vectors)
    else:
        _print(lines, vectors, as_json)


def _print(lines: Sequence[str], vectors: "Vectors", as_json: bool) -> None:
    import json

    for line, vector in zip(lines, vectors.tolist(), strict=True):
        if as_json:
            echo(json.dumps({"text": line, "vector": vector}, ensure_ascii=False))
        else:
            echo(" ".join(f"{number:.6g}" for number in vector))


def _write(vectors: "Vectors", output: Path) -> None:
    import io

    import numpy as np

    from regard.atomic import write_atomic

    if output.suffix == ".npy":
        content = io.BytesIO()
        np.save(content, vectors)
        write_atomic(output, content.getvalue())
    else:
        from safetensors.numpy import save

        write_atomic(output, save({"vectors": vectors}))
    count, size = vectors.shape
    echo(f"{count:,} vectors of {size:,} numbers are in {output}.", err=True)


def _compare(lines: Sequence[str], vectors: "Vectors") -> None:
    from regard.predictors.embedder import cosines, nearest

    if len(lines) > MAX_TABLE_LINES:
        for cosine, one, other in nearest(vectors, NEAREST_PAIRS):
            echo(f"{cosine:.4f}\t{one + 1}\t{other + 1}\t{lines[one]}\t{lines[other]}")
        return
    for number, (row, line) in enumerate(
        zip(cosines(vectors, vectors).tolist(), lines, strict=True), start=1
    ):
        echo("\t".join([str(number), *(f"{cosine:.4f}" for cosine in row), line]))
