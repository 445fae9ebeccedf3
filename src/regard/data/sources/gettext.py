"""A gettext catalogue to be filled in: what has no translation gets one, all else stays as it is.

A new translation is marked fuzzy, as gettext's own tools mark what nobody has looked at yet.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from regard.data.sources.lines import read_lines
from regard.data.sources.po import ESCAPES, STATEMENT, unescape
from regard.errors import DataError

ESCAPED = {character: f"\\{letter}" for letter, character in ESCAPES.items()}
ESCAPED |= {'"': '\\"', "\\": "\\\\"}


@dataclass
class _Entry:
    first: int = -1  # the line of its first statement
    flags: int = -1  # the line of its flags, "#, …"
    texts: dict[str, str] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)  # lines of each statement
    last: str = ""

    @property
    def forms(self) -> list[str]:
        return [key for key in self.texts if key.startswith("msgstr")]

    @property
    def is_open(self) -> bool:
        """It says something, and nobody has translated it."""
        said = self.texts.get("msgid", "")
        return bool(said and self.forms) and not any(self.texts[key] for key in self.forms)

    def source(self, form: str) -> str:
        singular = form in ("msgstr", "msgstr[0]") and len(self.forms) != 1
        plain = "msgid_plural" not in self.texts
        return self.texts["msgid" if plain or singular else "msgid_plural"]


class Catalogue:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = read_lines(path)
        self._entries = [entry for entry in self._read() if entry.is_open]

    def open_texts(self) -> list[str]:
        """What is to be translated, each text once."""
        texts = [entry.source(form) for entry in self._entries for form in entry.forms]
        return list(dict.fromkeys(texts))

    def filled(self, translations: Mapping[str, str]) -> str:
        """The whole catalogue with these translations; a text without one stays open."""
        lines = list(self._lines)
        for entry in reversed(self._entries):
            if all(entry.source(form) in translations for form in entry.forms):
                self._fill(lines, entry, translations)
        return "\n".join(lines) + "\n"

    def _fill(self, lines: list[str], entry: _Entry, translations: Mapping[str, str]) -> None:
        for form in reversed(entry.forms):
            start, end = entry.spans[form]
            lines[start:end] = _statement(form, translations[entry.source(form)])
        if entry.flags < 0:
            lines.insert(entry.first, "#, fuzzy")
        elif "fuzzy" not in lines[entry.flags]:
            lines[entry.flags] = lines[entry.flags].replace("#,", "#, fuzzy,", 1)

    def _read(self) -> list[_Entry]:
        entries = [_Entry()]
        for number, raw in enumerate(self._lines):
            line, entry = raw.strip(), entries[-1]
            begins = line.startswith("#") or re.match(r"msg(ctxt|id)\b(?!_)", line)
            if not line or (entry.forms and begins):
                entry = _Entry()
                entries.append(entry)
            if line.startswith("#,"):
                entry.flags = number
            elif line and not line.startswith("#"):
                self._take(entry, line, number)
        return entries

    def _take(self, entry: _Entry, line: str, number: int) -> None:
        statement = STATEMENT.fullmatch(line)
        key = statement[1] or entry.last if statement else ""
        if not statement or not key:
            raise DataError(
                f"{self.path}, line {number + 1}: not gettext; a catalogue has msgid and msgstr, "
                f"each with a text in quotes."
            )
        if not entry.texts:
            entry.first = number
        start = entry.spans.get(key, (number, number))[0]
        entry.spans[key] = (start, number + 1)
        entry.texts[key] = entry.texts.get(key, "") + unescape(statement[2])
        entry.last = key


def _statement(key: str, text: str) -> list[str]:
    """One line, or, for a text of several, an empty one first, as gettext writes them."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    quoted = ['"' + "".join(ESCAPED.get(each, each) for each in line) + '"' for line in lines]
    return [f"{key} {quoted[0]}"] if len(quoted) == 1 else [f'{key} ""', *quoted]
