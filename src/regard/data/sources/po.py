"""A gettext catalogue: what a program says (msgid) and its translation (msgstr).

Entries marked fuzzy are guesses of a tool and are rejected, as are those without a translation;
obsolete ones (`#~`) are comments. Of an entry with plural forms, the first belongs to the singular
and the others to the plural; where a language has one form for both, it belongs to the plural.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from regard.data.records import Line, Place, Record, Rejected
from regard.data.sources.base import PairSpec
from regard.data.sources.characters import quote
from regard.data.sources.lines import decode, stream_lines
from regard.data.sources.paths import files_at
from regard.errors import DataError

# A keyword and a string, or a string that goes on from the line before.
STATEMENT = re.compile(
    r'(?:(msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?)\s*)?"((?:[^"\\]|\\[abfnrtv"\\])*)"'
)
ESCAPES = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
CHARSETS = {"utf-8", "utf8", "ascii", "us-ascii"}


class Spec(PairSpec):
    """{kind: po, path: locale/fr.po, languages: [en, fr]}"""

    path: Path = Field(..., description="a catalogue, or a folder: all .po files below it")

    def records(self) -> Iterator[Line]:
        for file in self.files():
            for entry in _entries(file):
                yield from entry.records()

    def files(self) -> list[Path]:
        return files_at(self.path, "*.po")


@dataclass
class _Entry:
    """What stands between two blank lines, as far as it has been read."""

    place: Place
    strings: dict[str, str] = field(default_factory=dict)
    last: str = ""  # the keyword that a string without one goes on from
    fuzzy: bool = False
    rejected: Rejected | None = None

    @property
    def translated(self) -> bool:
        """Whether a msgstr has been read: what follows is another entry."""
        return self.last.startswith("msgstr")

    @property
    def is_header(self) -> bool:
        return self.strings.get("msgid") == "" and "msgctxt" not in self.strings

    def read(self, line: bytes, place: Place) -> None:
        text = decode(line, place)
        if isinstance(text, Rejected):
            self.rejected = self.rejected or text
            return
        statement = STATEMENT.fullmatch(text)
        keyword = statement[1] or self.last if statement else ""
        if not statement or not keyword or statement[1] in self.strings:
            self.rejected = self.rejected or Rejected(place, "not gettext", quote(text))
            return
        if keyword == "msgid" != self.last:
            self.place = place
        self.strings[keyword] = self.strings.get(keyword, "") + unescape(statement[2])
        self.last = keyword

    def records(self) -> Iterator[Line]:
        if self.rejected:
            yield self.rejected
        elif not self.strings or self.is_header:
            return
        elif self.fuzzy:
            yield Rejected(self.place, "fuzzy", quote(self.strings.get("msgid", "")))
        else:
            for source, target in self._pairs():
                if target:
                    yield Record(self.place, (source, target))
                else:
                    yield Rejected(self.place, "untranslated", quote(source))

    def _pairs(self) -> list[tuple[str, str]]:
        singular = self.strings.get("msgid", "")
        plural = self.strings.get("msgid_plural", singular)
        forms = [text for key, text in self.strings.items() if key.startswith("msgstr")] or [""]
        if len(forms) == 1:
            return [(plural, forms[0])]
        return [(singular, forms[0]), *((plural, form) for form in forms[1:])]


def _entries(path: Path) -> Iterator[_Entry]:
    entry = _Entry(Place(str(path), 1))
    for number, raw in stream_lines(path):
        line, place = raw.strip(), Place(str(path), number)
        begins = line.startswith((b"#", b"msgctxt", b"msgid ", b"msgid\t", b'msgid"'))
        if not line or (entry.translated and begins):
            _check_charset(entry)
            yield entry
            entry = _Entry(place)
        if line.startswith((b"#,", b"#~")):
            # The flags of an obsolete entry, which is all comments, are not the next one's.
            entry.fuzzy = line.startswith(b"#,") and (entry.fuzzy or b"fuzzy" in line)
        elif line and not line.startswith(b"#"):
            entry.read(line, place)
    _check_charset(entry)
    yield entry


def _check_charset(entry: _Entry) -> None:
    charset = re.search(r"charset=([\w.-]+)", entry.strings.get("msgstr", ""))
    if entry.is_header and charset and charset[1].lower() not in CHARSETS:
        raise DataError(
            f"{entry.place.file}: the catalogue is in {charset[1]}; convert it to UTF-8 first "
            f"(msgconv -t UTF-8)."
        )


def unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text)
