"""Reader and writer of gettext catalogs (.po): source texts (msgid) and translations (msgstr).

The writer fills in missing translations and changes no other byte: line ends, comments and a byte
order mark stay. It marks a new translation as fuzzy, as gettext's own tools mark what nobody has
reviewed yet.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from regard.data.records import Location, Rejected
from regard.data.sources.characters import quote
from regard.data.sources.encodings import guess_wide
from regard.data.sources.lines import UTF8_BOM, decode_value
from regard.errors import DataError
from regard.nearest import cannot_be_read

# A keyword and a string, or a string that continues the line before.
STATEMENT = re.compile(
    r'(?:(msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?)\s*)?"((?:[^"\\]|\\[abfnrtv"\\])*)"'
)
ESCAPES = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
ESCAPED = {character: f"\\{letter}" for letter, character in ESCAPES.items()}
ESCAPED |= {'"': '\\"', "\\": "\\\\"}
CHARSETS = {"utf-8", "utf8", "ascii", "us-ascii"}
NEW_ENTRY = (b"#", b"msgctxt", b"msgid ", b"msgid\t", b'msgid"')  # if a msgstr came before


@dataclass
class Entry:
    """An entry of a catalog: the text of each keyword, and the lines it was read from."""

    location: Location  # of its msgid
    parts: dict[str, list[str]] = field(default_factory=dict)  # of each text, line by line
    is_fuzzy: bool = False
    rejected: Rejected | None = None  # the first line that is not gettext
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)  # lines, from 1, of a keyword
    flags_line: int = 0  # of "#, …"; 0 if there is none
    last_keyword: str = ""  # that a string without a keyword continues

    @cached_property
    def texts(self) -> dict[str, str]:
        """Text of each keyword, once all lines are added."""
        return {keyword: "".join(parts) for keyword, parts in self.parts.items()}

    @property
    def is_header(self) -> bool:
        """True for the entry of the catalog's metadata."""
        return self.texts.get("msgid") == "" and "msgctxt" not in self.texts

    @property
    def forms(self) -> list[str]:
        """Keywords of the translation: msgstr, or msgstr[0], msgstr[1] … for plural forms."""
        return [keyword for keyword in self.texts if keyword.startswith("msgstr")]

    @property
    def is_untranslated(self) -> bool:
        """True if there is a source text and no form of a translation."""
        has_source = bool(self.texts.get("msgid", ""))
        return has_source and bool(self.forms) and not any(self.texts[form] for form in self.forms)

    def source(self, form: str) -> str:
        """Return the source text of a form: of the first the singular, of others the plural.

        A language with one form for both uses it for the plural.
        """
        is_singular = form in ("msgstr", "msgstr[0]") and len(self.forms) > 1
        singular = self.texts.get("msgid", "")
        return singular if is_singular else self.texts.get("msgid_plural", singular)

    def add_line(self, line: bytes, location: Location) -> None:
        """Add a statement; a line that is not gettext rejects the entry."""
        text = decode_value(line, location)
        if isinstance(text, Rejected):
            self.rejected = self.rejected or text
            return
        statement = STATEMENT.fullmatch(text)
        keyword = statement[1] or self.last_keyword if statement else ""
        if not statement or not keyword or statement[1] in self.parts:
            self.rejected = self.rejected or Rejected(location, "not gettext", quote(text))
            return
        if keyword == "msgid" != self.last_keyword:
            self.location = location
        first_line = self.spans.get(keyword, (location.line, 0))[0]
        self.spans[keyword] = (first_line, location.line + 1)
        self.parts.setdefault(keyword, []).append(unescape(statement[2]))
        self.last_keyword = keyword


def read_entries(file: str, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry]:
    """Yield the entries of numbered lines, empty ones too; obsolete ones (#~) are comments."""
    entry = Entry(Location(file, 1))
    for number, raw in lines:
        line, location = raw.strip(), Location(file, number)
        has_translation = entry.last_keyword.startswith("msgstr")
        if not line or (has_translation and line.startswith(NEW_ENTRY)):
            yield entry
            entry = Entry(location)
        if line.startswith(b"#,"):
            entry.flags_line, entry.is_fuzzy = number, entry.is_fuzzy or b"fuzzy" in line
        elif line.startswith(b"#~"):
            # The flags of an obsolete entry are not those of the next one.
            entry.flags_line, entry.is_fuzzy = 0, False
        elif line and not line.startswith(b"#"):
            entry.add_line(line, location)
    yield entry


def check_charset(entry: Entry) -> None:
    """Raise DataError if the header of a catalog names an encoding other than UTF-8."""
    charset = re.search(r"charset=([\w.-]+)", entry.texts.get("msgstr", ""))
    if entry.is_header and charset and charset[1].lower() not in CHARSETS:
        raise DataError(
            f"{entry.location.file}: the catalog is in {charset[1]}; convert it to UTF-8 first "
            f"(msgconv -t UTF-8)."
        )


class Catalog:
    """A catalog whose missing translations can be filled in; all other bytes stay as they are."""

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        """Read a catalog; raises DataError at a line that is not gettext.

        Args:
            path: The file.
            content: Its bytes, if they are not to be read from it.
        """
        self._lines = _with_ends(_bytes_of(path) if content is None else content, path)
        mark = UTF8_BOM if self._lines[:1] and self._lines[0].startswith(UTF8_BOM) else b""
        text = [line.removeprefix(mark) if not n else line for n, line in enumerate(self._lines)]
        entries = list(read_entries(str(path), enumerate(text, start=1)))
        for entry in entries:
            if entry.rejected:
                raise DataError(
                    f"{entry.rejected.location}: {entry.rejected.reason}; a catalog has msgid and "
                    f"msgstr, each with a text in quotes."
                )
            check_charset(entry)
        self._untranslated = [entry for entry in entries if entry.is_untranslated]

    def untranslated_texts(self) -> list[str]:
        """Return the texts without a translation, each once."""
        texts = [entry.source(form) for entry in self._untranslated for form in entry.forms]
        return list(dict.fromkeys(texts))

    def filled(self, translations: Mapping[str, str]) -> bytes:
        """Return the catalog with these translations; a text without one stays untranslated."""
        lines = list(self._lines)
        for entry in reversed(self._untranslated):
            if all(entry.source(form) in translations for form in entry.forms):
                _fill(lines, entry, translations)
        return b"".join(lines)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(cannot_be_read(path, error)) from None


def _with_ends(data: bytes, path: Path) -> list[bytes]:
    """Return the lines of a file, each with its end."""
    if guess_wide(data):
        raise DataError(f"{path}: this is UTF-16; convert the text to UTF-8 first.")
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


def _end(line: bytes) -> bytes:
    r"""Return the end of a line: \n, \r\n, or nothing at the end of a file."""
    return line[len(line.rstrip(b"\r\n")) :]


def _fill(lines: list[bytes], entry: Entry, translations: Mapping[str, str]) -> None:
    first = min(start for start, _ in entry.spans.values())
    end = _end(lines[first - 1])  # that of a msgid: another line follows it
    for form in reversed(entry.forms):
        start, stop = entry.spans[form]
        statement = _statement(form, translations[entry.source(form)])
        last = _end(lines[stop - 2])
        lines[start - 1 : stop - 1] = [line.encode() + end for line in statement[:-1]]
        lines.insert(start - 1 + len(statement) - 1, statement[-1].encode() + last)
    if not entry.flags_line:
        mark = UTF8_BOM if first == 1 and lines[0].startswith(UTF8_BOM) else b""
        lines[first - 1] = lines[first - 1].removeprefix(mark)
        lines.insert(first - 1, mark + b"#, fuzzy" + end)
    elif b"fuzzy" not in lines[entry.flags_line - 1]:
        flags = lines[entry.flags_line - 1]
        lines[entry.flags_line - 1] = flags.replace(b"#,", b"#, fuzzy,", 1)


def _statement(keyword: str, text: str) -> list[str]:
    """Return one line, or, for a text of several lines, an empty one first, as gettext does."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    quoted = ['"' + "".join(ESCAPED.get(char, char) for char in line) + '"' for line in lines]
    return [f"{keyword} {quoted[0]}"] if len(quoted) == 1 else [f'{keyword} ""', *quoted]


def unescape(text: str) -> str:
    """Replace the escapes of a gettext string."""
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text)
