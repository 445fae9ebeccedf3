"""Pairs of texts: which columns are translations of each other, or a text and its summary."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import StatisticsError, correlation
from typing import Any

from regard.data.languages import (
    describe_language,
    file_language,
    language_named,
    recognize_language,
)
from regard.data.recognition.columns import Column
from regard.data.recognition.recognized import (
    RecognizedSource,
    describe,
    estimate_characters,
    from_columns,
    sample_texts,
)
from regard.data.recognition.tables import Advance, Table, spread
from regard.data.records import Record
from regard.data.sources import files
from regard.errors import DataError

KINDS = {"tsv": "tsv", "csv": "csv", "jsonl": "jsonl", "parquet": "parquet", "po": "po"}
PLACEHOLDERS = ("source", "target")  # names of languages that were not recognized
SOURCE_NAMES = frozenset({"source", "src", "original", "input", "sentence"})
TARGET_NAMES = frozenset({"target", "tgt", "trg", "translation", "output"})
SUMMARY_NAMES = frozenset(
    {"summary", "highlights", "headline", "title", "abstract", "tldr", "target"}
)
TEXT_NAMES = frozenset({"text", "document", "article", "body", "content", "description", "source"})
MIN_MIXED = 0.2  # fraction of a column in the language of the other
SINGLE_TEXTS = 400  # texts whose languages are recognized one by one
MUCH_SHORTER = 1.5  # times, from which a text is a summary of another


def recognize_translation(table: Table) -> RecognizedSource:
    """Return the source of sentence pairs in a table."""
    pair = _translation_columns(table)
    codes = tuple(_language(table, column) for column in pair)
    _refuse_mixed(table, pair)
    languages, doubts = _distinct(str(table.path), codes)
    settings = from_columns(table, KINDS, pair, languages=list(languages), **_lists(table, pair))
    roles = {str(column): describe_language(code) for column, code in zip(pair, codes, strict=True)}
    finding = describe(table, {} if table.format.name == "po" else roles)
    if table.format.name == "po":
        finding = f"{table}; msgid is {roles['column 0']}, msgstr is {roles['column 1']}."
    return _recognized(table, settings, pair, finding, doubts)


def recognize_parallel(
    paths: Sequence[Path], encoding: str | None, advance: Advance
) -> RecognizedSource:
    """Return the source of sentence pairs in two files with the same number of lines."""
    first, second = paths
    source = files.Spec(source=first, target=second, encoding=encoding, languages=PLACEHOLDERS)
    records = (line.texts for line in source.records() if isinstance(line, Record))
    texts, count = spread(records, advance)
    sides = list(zip(*texts, strict=True))
    codes = tuple(
        file_language(path) or recognize_language(side)
        for path, side in zip(paths, sides, strict=True)
    )
    languages, doubts = _distinct(f"{first} and {second}", codes)
    settings = {"kind": "files", "source": first, "target": second, "languages": list(languages)}
    settings |= {"encoding": encoding} if encoding else {}
    shown = [
        f"{path} is {describe_language(code)}" for path, code in zip(paths, codes, strict=True)
    ]
    finding = f"{shown[0]}, {shown[1]}: {count:,} parallel lines."
    return RecognizedSource(
        settings, texts, count, estimate_characters(texts, count), (finding,), doubts
    )


def recognize_summaries(table: Table) -> RecognizedSource:
    """Return the source of texts and their summaries in a table."""
    text, summary = _summary_columns(table)
    doubts: tuple[str, ...] = ()
    if text.mean_length < MUCH_SHORTER * summary.mean_length:
        doubts = (f"{table.path}: {summary} is hardly shorter than {text}; is it the summary?",)
    pair = (text, summary)
    settings = from_columns(
        table, KINDS, pair, languages=["text", "summary"], **_lists(table, pair)
    )
    return _recognized(table, settings, pair, describe(table, _summary_roles(pair)), doubts)


def _summary_roles(pair: Sequence[Column]) -> dict[str, str]:
    names = ("the text", "the summary")
    return {
        str(column): f"{name} ({column.mean_words:,.0f} words on average)"
        for column, name in zip(pair, names, strict=True)
    }


def _recognized(
    table: Table,
    settings: dict[str, Any],
    pair: Sequence[Column],
    finding: str,
    doubts: tuple[str, ...],
) -> RecognizedSource:
    texts = sample_texts(pair)
    characters = estimate_characters(texts, table.num_records)
    return RecognizedSource(settings, texts, table.num_records, characters, (finding,), doubts)


def _text_columns(table: Table) -> list[Column]:
    """Return the columns of text; raises DataError if there are fewer than two."""
    texts = [column for column in table.columns if column.is_text]
    if len(texts) < 2:  # a small table may repeat its texts
        texts = [column for column in table.columns if column.content in ("text", "categories")]
    if len(texts) < 2:
        count = "there is one column" if len(texts) else "there is no column"
        raise DataError(
            f"{table.path}: {count} of text where two are needed; its columns are {table.show()}."
        )
    return texts


def _translation_columns(table: Table) -> tuple[Column, Column]:
    texts = _text_columns(table)
    named = _named(texts, SOURCE_NAMES, TARGET_NAMES)
    if named:
        return named
    of_language = [column for column in texts if column.name and language_named(column.name)]
    if len(of_language) == 2:
        return of_language[0], of_language[1]
    return max(combinations(texts, 2), key=lambda pair: _likeness(*pair))


def _likeness(first: Column, second: Column) -> float:
    """Return how much two columns are like translations: in two languages, long together."""
    try:
        lengths = correlation(*([float(len(cell)) for cell in c.cells] for c in (first, second)))
    except StatisticsError:  # of one cell, or all of one length
        lengths = 0.0
    languages = {recognize_language(column.cells) for column in (first, second)}
    return lengths + (len(languages - {None}) == 2)


def _summary_columns(table: Table) -> tuple[Column, Column]:
    texts = _text_columns(table)
    named = _named(texts, TEXT_NAMES, SUMMARY_NAMES)
    if named:
        return named
    longest = sorted(texts, key=lambda column: -column.mean_length)
    return longest[0], longest[1]


def _named(
    columns: Sequence[Column], firsts: frozenset[str], seconds: frozenset[str]
) -> tuple[Column, Column] | None:
    """Return the one column with a name of each set, or None."""
    pair = [
        [column for column in columns if column.name.casefold() in names]
        for names in (firsts, seconds)
    ]
    if len(pair[0]) == len(pair[1]) == 1 and pair[0] != pair[1]:
        return pair[0][0], pair[1][0]
    return None


def _language(table: Table, column: Column) -> str | None:
    named = language_named(column.name) if column.name else None
    if named is None and table.format.name == "po" and column.key == 1:
        named = language_named(table.path.name.removesuffix(".po"))
    return named or recognize_language(column.cells)


def _refuse_mixed(table: Table, pair: Sequence[Column]) -> None:
    """Raise DataError if both columns have lines in the language of the other."""
    shares = [_language_shares(column.cells) for column in pair]
    both = [code for code in shares[0] if all(share.get(code, 0) >= MIN_MIXED for share in shares)]
    if len(both) > 1:
        names = " and ".join(map(describe_language, sorted(both)))
        raise DataError(
            f"{table.path}: {pair[0]} and {pair[1]} are both in {names}, mixed from line to line; "
            f"write a file for each direction first, or sort the texts into a column for each "
            f"language."
        )


def _language_shares(cells: Sequence[str]) -> dict[str, float]:
    """Return the fraction of texts in each language, among those that are recognized alone."""
    some = cells[:: max(1, len(cells) // SINGLE_TEXTS)]
    codes = [code for cell in some if (code := recognize_language([cell])) is not None]
    return {code: codes.count(code) / len(codes) for code in set(codes)}


def _distinct(where: str, codes: tuple[str | None, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a name for each of two languages, and a sentence where they were not recognized."""
    first, second = codes
    if first and second and first != second:
        return (first, second), ()
    names = tuple(
        code if code and codes.count(code) == 1 else placeholder
        for code, placeholder in zip(codes, PLACEHOLDERS, strict=True)
    )
    problem = (
        f"both texts look like {describe_language(first)}"
        if first and first == second
        else f"the language of the {' and '.join(_unknown(codes))} text was not recognized"
    )
    return names, (
        f"{where}: {problem}; it is named {' and '.join(_placed(names))} in the recipe.",
    )


def _unknown(codes: Sequence[str | None]) -> list[str]:
    return [name for name, code in zip(("first", "second"), codes, strict=True) if code is None]


def _placed(names: Sequence[str]) -> list[str]:
    return [name for name in names if name in PLACEHOLDERS]


def _lists(table: Table, pair: Sequence[Column]) -> dict[str, Any]:
    """Return the key for texts that are lists: sentences of a text, versions of the second."""
    if table.format.name != "jsonl" or not any(column.lists for column in pair):
        return {}
    contents = ("sentences", "versions")
    return {
        "lists": [
            content if column.lists else "none"
            for column, content in zip(pair, contents, strict=True)
        ]
    }
