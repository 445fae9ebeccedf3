"""A gettext catalog: the texts of a program (msgid) and their translations (msgstr).

Entries marked fuzzy are guesses of a tool and are rejected, as are entries without a translation.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from regard.data.records import Line, Record, Rejected
from regard.data.sources.base import PairSpec
from regard.data.sources.characters import quote
from regard.data.sources.gettext import Entry, check_charset, read_entries
from regard.data.sources.lines import stream_lines
from regard.data.sources.paths import files_at


class Spec(PairSpec):
    """{kind: po, path: locale/fr.po, languages: [en, fr]}"""

    path: Path = Field(..., description="a catalog, or a folder: all .po files below it")

    def records(self) -> Iterator[Line]:
        for file in self.files():
            for entry in read_entries(str(file), stream_lines(file)):
                check_charset(entry)
                yield from _records(entry)

    def files(self) -> list[Path]:
        return files_at(self.path, "*.po")


def _records(entry: Entry) -> Iterator[Line]:
    """Yield a record for each translated form of an entry."""
    if entry.rejected:
        yield entry.rejected
    elif not entry.texts or entry.is_header:
        return
    elif entry.is_fuzzy:
        yield Rejected(entry.location, "fuzzy", quote(entry.texts.get("msgid", "")))
    else:
        for form in entry.forms or ["msgstr"]:
            source, translation = entry.source(form), entry.texts.get(form, "")
            if translation:
                yield Record(entry.location, (source, translation))
            else:
                yield Rejected(entry.location, "untranslated", quote(source))
