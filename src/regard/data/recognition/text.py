"""Running text: its size, and where its documents end."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.recognition.formats import FileFormat
from regard.data.recognition.recognized import RecognizedSource
from regard.data.recognition.tables import Advance, spread
from regard.data.sources.lines import stream_lines
from regard.errors import DataError

LONG_LINE = 200  # characters on average, from which a line is a text of its own


def recognize_text(
    paths: Sequence[Path],
    files: Sequence[Path],
    encoding: str | None,
    *,
    sentences: bool,
    advance: Advance,
) -> RecognizedSource:
    """Return the source of running text in files.

    `paths` are the files and folders as they were named, `files` all files in them. With
    `sentences`, lines are texts of their own unless there are blank ones, as masked models read
    them.
    """
    characters = blank = 0

    def lines() -> Iterator[tuple[str]]:
        nonlocal characters, blank
        for path in files:
            for _, line in stream_lines(path, encoding):
                text = line.decode("utf-8", "replace")
                characters += len(text) + 1
                blank += not text.strip()
                yield (text,)

    sample, count = spread(lines(), advance)
    documents = _documents(count, characters, blank, len(files), sentences)
    settings: dict[str, Any] = {
        "kind": "text",
        "path": paths[0] if len(paths) == 1 else list(paths),
        "documents": documents,
    }
    settings |= {"encoding": encoding} if encoding else {}
    names = ", ".join(map(str, paths[:5])) + ", …" * (len(paths) > 5)
    number = "" if len(files) == 1 else f"{len(files):,} files, "
    ends = {"file": "a file", "line": "a line", "blank": "the text between blank lines"}[documents]
    size = f"{count:,} lines, {characters:,} characters"
    file_format = FileFormat("text", encoding=encoding)
    finding = f"{names}: {number}{file_format}, {size}; a document is {ends}."
    texts = [row for row in sample if row[0].strip()]
    return RecognizedSource(settings, texts, count, characters, (finding,))


def _documents(lines: int, characters: int, blank: int, files: int, sentences: bool) -> str:
    if blank or files > 1:
        return "file"
    is_long = characters > LONG_LINE * lines
    return "line" if lines > 1 and (sentences or is_long) else "file"


def refuse_table(path: Path, file_format: FileFormat) -> None:
    """Raise DataError for a table: running text is read by whole lines."""
    if file_format.name == "text":
        return
    commands = {
        "tsv": f"cut -f2 {path.name} > text.txt",
        "jsonl": f"jq -r .text {path.name} > text.txt",
    }
    command = commands.get(file_format.name)
    raise DataError(
        f"{path}: is {file_format}, and running text is read by whole lines; write the column of "
        f"the texts to a file first{f', as with `{command}`' if command else ''}."
    )
