"""Texts that are kept out of training: what a model will be tested on must not be in there.

The same text is written in many ways (won't, wo n't; “so”, `` so '') and stands alone or among
others. So only letters and digits are compared, in one case, and a line is kept out that is one of
these texts or has one of them in it. A short one, as "very good", may be in a line by chance: it
counts where it is all of it.

Running text is looked at line by line, and only the lines that are found are left out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from unicodedata import normalize

from regard.data.config import DataSpec, Dropped, name
from regard.data.ledger import KEPT_OUT, Ledger
from regard.data.records import Place, Record, Rejected
from regard.data.sources.base import RecordType

SHORT = 24  # letters and digits: what has fewer is not looked for within a line

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_BRACKETS = re.compile(r"\b[lr][rsc]b\b")  # as the Penn Treebank writes them: -LRB- is (
_NO_LETTERS = re.compile(r"[\W_]+")


class Decontaminator:
    """What is kept out, in letters and digits alone, and by how that begins."""

    def __init__(self, data: DataSpec, ledger: Ledger) -> None:
        self._record_type = data.record_type
        self._all: set[str] = set()
        self._by_beginning: dict[str, list[str]] = {}
        for source in data.exclude or ():
            ledger.keep("exclude", name(source), 0)
            for line in source.records():
                if isinstance(line, Rejected):
                    ledger.drop("exclude", name(source), line)
                else:
                    ledger.keep("exclude", name(source), line.lines)
                    self._add(_texts(line, source.record_type))

    def _add(self, texts: Sequence[str]) -> None:
        for letters in filter(None, map(_letters, texts)):
            if letters not in self._all and len(letters) >= SHORT:
                self._by_beginning.setdefault(letters[:SHORT], []).append(letters)
            self._all.add(letters)

    def kept(self, records: Iterable[Record | Dropped]) -> Iterator[Record | Dropped]:
        """The records of train, those refused that are kept out."""
        if not self._all:
            yield from records
            return
        for record in records:
            if isinstance(record, Dropped) or not any(
                map(self._has, _texts(record, self._record_type))
            ):
                yield record
            elif self._record_type == "text":
                yield from self._less(record)
            else:
                yield _refused(record)

    def _less(self, record: Record) -> Iterator[Record | Dropped]:
        """Running text without some of its lines: as several records, the last of which ends it."""
        place, kept = record.place, []
        for out, lines in groupby(_LINES.findall(record.texts[0]), self._has):
            piece = Record(place, ("".join(lines),), ends=False)
            place = Place(place.file, place.line + piece.lines)
            if out:
                yield _refused(piece)
            else:
                kept.append(piece)
        yield from kept[:-1]
        yield from (Record(last.place, last.texts, record.ends) for last in kept[-1:])

    def _has(self, text: str) -> bool:
        letters = _letters(text)
        return letters in self._all or any(
            letters.startswith(each, start)
            for start in range(len(letters) - SHORT + 1)
            for each in self._by_beginning.get(letters[start : start + SHORT], ())
        )


def _texts(record: Record, record_type: RecordType) -> Sequence[str]:
    """What a record says: of running text, each line."""
    if record_type == "text":
        found: list[str] = _LINES.findall(record.texts[0])
        return found
    return record.texts


def _refused(record: Record) -> Dropped:
    return Dropped(Rejected(record.place, KEPT_OUT), record.lines, record.texts)


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", _BRACKETS.sub("", normalize("NFKC", text).casefold()))
