"""Labeled texts: which columns are the texts, which is the label, and if texts have several."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from regard.data.sources import by_file
from regard.data.sources.characters import shortened
from regard.data.sources.columns import may_be_labels
from regard.errors import DataError

KINDS = {"tsv": "labeled", "csv": "labeled-csv", "jsonl": "labeled-jsonl"}
LABEL_NAMES = frozenset(
    {"label", "labels", "class", "category", "sentiment", "polarity", "topic", "intent", "emotion"}
    | {"tag", "tags", "gold", "gold_label", "stars", "rating", "target", "y"}
)
PAIR_NAMES = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
)
SEPARATORS = ("|", ";", ",", " ")
MIN_SEVERAL = 0.1  # fraction of the texts with several labels
SIMILAR = 4  # times the length, up to which two texts are a pair
NO_LABELS = frozenset({"-", "none"})
SHOWN = 5  # labels in a finding


def recognize_labeled(table: Table) -> RecognizedSource:
    """Return the source of labeled texts in a table."""
    label, others = _label_column(table)
    texts = _text_columns(table, label)
    used = (*texts, label)
    separator = _separator(label)
    format_of_labels = _label_format(label, separator)
    settings = from_columns(table, KINDS, used, **format_of_labels)
    values = _labels(label, separator)
    roles = dict(zip(map(str, texts), _text_roles(texts), strict=True))
    roles[str(label)] = f"the label ({_show(values, 'several for a text' if separator else '')})"
    doubts = tuple(
        f"{table.path}: {other} may be the label too; if it is, change the last of columns."
        for other in others
    )
    sample = sample_texts(texts)
    characters = estimate_characters(sample, table.num_records)
    finding = describe(table, roles)
    return RecognizedSource(settings, sample, table.num_records, characters, (finding,), doubts)


def recognize_by_file(
    paths: Sequence[Path], encoding: str | None, advance: Advance
) -> RecognizedSource:
    """Return the source of texts with a file for each label, which the files' names tell."""
    labels = _labels_of_files(paths)
    classes = dict(zip(labels, paths, strict=True))
    source = by_file.Spec(classes=classes, encoding=encoding)
    records = (line for line in source.records() if isinstance(line, Record))
    sample, count = spread(records, advance)
    texts = [record.texts for record in sample]
    settings: dict[str, Any] = {"kind": "by-file", "classes": classes}
    settings |= {"encoding": encoding} if encoding else {}
    shown = ", ".join(f"{path} is {label!r}" for label, path in classes.items())
    finding = f"{shown}: plain text, one text a line, {count:,} texts."
    return RecognizedSource(settings, texts, count, estimate_characters(texts, count), (finding,))


def _label_column(table: Table) -> tuple[Column, list[Column]]:
    """Return the column of the labels, and the others that may be it."""
    candidates = [column for column in table.columns if _may_be_label(column)]
    named = [column for column in candidates if column.name.casefold() in LABEL_NAMES]
    if not candidates:
        raise DataError(
            f"{table.path}: no column looks like a label, with few values that are repeated; its "
            f"columns are {table.show()}."
        )
    best = min(named or candidates, key=lambda column: len(set(column.cells)))
    rivals = named if named else candidates
    return best, [column for column in rivals if column is not best]


def _may_be_label(column: Column) -> bool:
    labels = _labels(column, _separator(column))
    cells = column.filled
    if column.is_split or column.content in ("nothing", "id", "addresses") or len(labels) < 2:
        return False
    return may_be_labels(cells) or (len(labels) <= len(cells) / 2 and bool(column.lists))


def _text_columns(table: Table, label: Column) -> list[Column]:
    texts = [column for column in table.columns if column.is_text and column is not label]
    if not texts:  # a small table may repeat its texts
        texts = [
            column
            for column in table.columns
            if column.content == "categories" and column is not label
        ]
    if not texts:
        raise DataError(
            f"{table.path}: no column beside the label looks like text; its columns are "
            f"{table.show()}."
        )
    by_name = {column.name.casefold(): column for column in texts}
    for first, second in PAIR_NAMES:
        if first in by_name and second in by_name:
            return [by_name[first], by_name[second]]
    longest = max(column.mean_length for column in texts)
    similar = [column for column in texts if SIMILAR * column.mean_length >= longest]
    if len(similar) == 2 and not table.header and table.format.name != "jsonl":
        return similar
    return [max(texts, key=lambda column: column.mean_length)]


def _text_roles(texts: Sequence[Column]) -> list[str]:
    return ["the text"] if len(texts) == 1 else ["the first text", "the second text"]


def _separator(column: Column) -> str | None:
    """Return the separator of several labels in a cell, or None if each has one."""
    if column.lists is not None:
        return "," if any(len(labels) != 1 for labels in column.lists) else None
    cells, whole = column.filled, len(set(column.filled))
    for separator in SEPARATORS:
        several = sum(separator in cell for cell in cells)
        parts = {part.strip() for cell in cells for part in cell.split(separator)}
        if several >= MIN_SEVERAL * len(cells) and several and all(parts) and len(parts) < whole:
            return separator
    return None


def _labels(column: Column, separator: str | None) -> Counter[str]:
    """Return the labels of the sample with their counts."""
    if column.lists is not None:
        return Counter(label for labels in column.lists for label in labels)
    if separator is None:
        return Counter(column.filled)
    return Counter(part.strip() for cell in column.filled for part in cell.split(separator))


def _label_format(column: Column, separator: str | None) -> dict[str, Any]:
    if separator is None:
        return {}
    labels = {"separator": separator}
    none = NO_LABELS & {cell.casefold() for cell in column.filled}
    if none and column.lists is None:
        labels["none"] = next(cell for cell in column.filled if cell.casefold() in none)
    return {"labels": labels}


def _show(labels: Counter[str], further: str) -> str:
    names = ", ".join(shortened(label, 30) for label, _ in labels.most_common(SHOWN))
    more = ", …" if len(labels) > SHOWN else ""
    return f"{len(labels):,} values{', ' + further if further else ''}: {names}{more}"


def _labels_of_files(paths: Sequence[Path]) -> list[str]:
    """Return the parts in which the names of files differ: pos and neg of reviews.pos and .neg."""
    names = [path.name.removesuffix(".gz") for path in paths]
    parts = [re.split(r"[\W_]+", name) for name in names]
    common = set(parts[0]).intersection(*parts)
    labels = ["-".join(part for part in own if part not in common) for own in parts]
    return labels if all(labels) and len(set(labels)) == len(labels) else names
