"""Decontamination: drop training text that is also in the sources of `data.exclude`.

The same text is written in many ways (won't, wo n't; “so”, `` so '') and is alone or within a
longer line. So only letters and digits are compared, in one case, and a line is dropped if it is
one of these texts or contains one. A short one, as "very good", may be in a line by chance: it
only counts as a whole line, and not at all below `data.filters.exclude_min_letters`.

Running text is compared line by line, and only the matching lines are dropped.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from unicodedata import normalize

from regard.data.config import DataSpec, Dropped, source_name
from regard.data.ledger import EXCLUDED, Ledger
from regard.data.records import Location, Record, Rejected
from regard.data.sources.base import RecordType

SHORT = 24  # letters and digits: a shorter text is not searched for within a line

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_BRACKETS = re.compile(r"\b[lr][rsc]b\b")  # as the Penn Treebank writes them: -LRB- is (
_NO_LETTERS = re.compile(r"[\W_]+")


class Decontaminator:
    """Drops records that contain an excluded text."""

    def __init__(self, data: DataSpec, ledger: Ledger) -> None:
        """Read the sources of `data.exclude`; the ledger counts their lines."""
        self._record_type, self._shortest = data.record_type, data.filters.exclude_min_letters
        self._excluded: set[str] = set()  # letters and digits of each text
        self._by_prefix: dict[str, list[str]] = {}
        for source in data.exclude or ():
            ledger.keep("exclude", source_name(source), 0)
            for line in data.records(source):
                if isinstance(line, Rejected):
                    ledger.drop("exclude", source_name(source), line)
                else:
                    ledger.keep("exclude", source_name(source), line.lines)
                    self._add(_texts(line, source.record_type))

    def _add(self, texts: Sequence[str]) -> None:
        for letters in map(_letters, texts):
            if len(letters) < self._shortest:
                continue
            if letters not in self._excluded and len(letters) >= SHORT:
                self._by_prefix.setdefault(letters[:SHORT], []).append(letters)
            self._excluded.add(letters)

    def filter(self, records: Iterable[Record | Dropped]) -> Iterator[Record | Dropped]:
        """Yield training records, with those that contain an excluded text as dropped."""
        if not self._excluded:
            yield from records
            return
        for record in records:
            if isinstance(record, Dropped) or not self._matches_any(record):
                yield record
            elif self._record_type == "text":
                yield from self._filter_lines(record)
            else:
                yield _dropped(record)

    def _matches_any(self, record: Record) -> bool:
        return any(map(self._matches, _texts(record, self._record_type)))

    def _filter_lines(self, record: Record) -> Iterator[Record | Dropped]:
        """Yield running text without the matching lines, as several records."""
        location, kept = record.location, []
        for matches, lines in groupby(_LINES.findall(record.texts[0]), self._matches):
            part = Record(location, ("".join(lines),), ends_document=False)
            location = Location(location.file, location.line + part.lines)
            if matches:
                yield _dropped(part)
            else:
                kept.append(part)
        yield from kept[:-1]
        yield from (Record(last.location, last.texts, record.ends_document) for last in kept[-1:])

    def _matches(self, text: str) -> bool:
        letters = _letters(text)
        return letters in self._excluded or any(
            letters.startswith(excluded, start)
            for start in range(len(letters) - SHORT + 1)
            for excluded in self._by_prefix.get(letters[start : start + SHORT], ())
        )


def _texts(record: Record, record_type: RecordType) -> Sequence[str]:
    """Return the texts of a record; of running text, its lines."""
    if record_type == "text":
        lines: list[str] = _LINES.findall(record.texts[0])
        return lines
    return record.texts


def _dropped(record: Record) -> Dropped:
    return Dropped(Rejected(record.location, EXCLUDED), record.lines, record.texts)


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", _BRACKETS.sub("", normalize("NFKC", text).casefold()))
