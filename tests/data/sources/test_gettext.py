"""Filling in gettext catalogs."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from regard.data.sources.gettext import Catalog
from regard.errors import DataError
from regard.predictors.gettext import translate_catalog

PO = """# Translators, please.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\\n"

#: main.c:12
msgid "Hello"
msgstr "Bonjour"

#, c-format
msgid "%d file \\"found\\""
msgid_plural "%d files \\"found\\""
msgstr[0] ""
msgstr[1] ""

msgctxt "menu"
msgid ""
"\\n"
"  Two\\n"
"lines\\n"
msgstr ""

#~ msgid "old"
#~ msgstr ""
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "fr.po").write_text(PO, encoding="utf-8")
    return tmp_path / "fr.po"


def test_untranslated_texts_are_found(path: Path) -> None:
    texts = Catalog(path).untranslated_texts()
    assert texts == ['%d file "found"', '%d files "found"', "\n  Two\nlines\n"]


def test_filling_nothing_changes_nothing(path: Path) -> None:
    assert Catalog(path).filled({}) == PO.encode()


def test_translations_are_filled_in_and_marked_fuzzy(path: Path) -> None:
    def loud(lines: Sequence[str]) -> list[str]:
        return [line.upper().replace("%D", "%d") for line in lines]

    text, lost = translate_catalog(Catalog(path), loud)
    assert lost == []
    assert text.decode() == PO.replace("#, c-format", "#, fuzzy, c-format").replace(
        'msgstr[0] ""\nmsgstr[1] ""',
        'msgstr[0] "%d FILE \\"FOUND\\""\nmsgstr[1] "%d FILES \\"FOUND\\""',
    ).replace('msgctxt "menu"', '#, fuzzy\nmsgctxt "menu"').replace(
        '"lines\\n"\nmsgstr ""\n', '"lines\\n"\nmsgstr ""\n"\\n"\n"  TWO\\n"\n"LINES\\n"\n'
    )


def test_translation_without_its_variable_is_not_filled_in(path: Path) -> None:
    text, lost = translate_catalog(Catalog(path), lambda lines: ["perdu" for _ in lines])
    assert lost == ['%d file "found"', '%d files "found"']
    assert b'msgstr[0] ""' in text
    assert b'"  perdu\\n"' in text


@pytest.mark.skipif(not shutil.which("msgfmt"), reason="gettext is not installed")
def test_msgfmt_accepts_the_filled_catalog(path: Path, tmp_path: Path) -> None:
    text, _ = translate_catalog(Catalog(path), lambda lines: [f"<{line}>" for line in lines])
    (tmp_path / "new.po").write_bytes(text)
    command = ["msgfmt", "-c", "--use-fuzzy", "-o", tmp_path / "new.mo", tmp_path / "new.po"]
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_file_that_is_not_gettext_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.po").write_text('msgid "a"\nmsgstr "b"\nhello\n')
    with pytest.raises(DataError, match=r"bad\.po, line 3: not gettext"):
        Catalog(tmp_path / "bad.po")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "end"])
def test_only_translations_change(tmp_path: Path, mark: bytes, end: str, last: str) -> None:
    """Line ends, a missing last one, a byte order mark, spaces and odd comments stay."""
    before = [
        "# caf\xe9  ",
        "",
        'msgid   "done"   ',
        'msgstr "fait"\t',
        "",
        "   ",
        'msgid "one"',
        'msgstr ""',
        'msgid "two\\n"',
        '"lines"',
        'msgstr ""',
        '""',
    ]
    after = [
        *before[:6],
        *("#, fuzzy", 'msgid "one"', 'msgstr "ONE"'),
        *("#, fuzzy", 'msgid "two\\n"', '"lines"', 'msgstr ""', '"TWO\\n"', '"LINES"'),
    ]
    final = end if last else ""
    path = tmp_path / "fr.po"
    path.write_bytes(mark + (end.join(before) + final).encode("latin-1"))
    text, _ = translate_catalog(Catalog(path), lambda lines: [line.upper() for line in lines])
    assert text == mark + (end.join(after) + final).encode("latin-1")


def test_mark_stays_first_where_the_first_entry_is_filled_in(tmp_path: Path) -> None:
    (tmp_path / "fr.po").write_bytes(b'\xef\xbb\xbfmsgid "a"\r\nmsgstr ""')
    filled = Catalog(tmp_path / "fr.po").filled({"a": "b"})
    assert filled == b'\xef\xbb\xbf#, fuzzy\r\nmsgid "a"\r\nmsgstr "b"'


def test_catalog_of_another_encoding_is_refused(tmp_path: Path) -> None:
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n'
    (tmp_path / "old.po").write_text(header)
    with pytest.raises(DataError, match=r"old\.po: the catalog is in ISO-8859-1; convert"):
        Catalog(tmp_path / "old.po")
    (tmp_path / "wide.po").write_text(header, encoding="utf-16")
    with pytest.raises(DataError, match=r"wide\.po: this is UTF-16; convert"):
        Catalog(tmp_path / "wide.po")
    (tmp_path / "bad.po").write_bytes(b'msgid "\xff"\nmsgstr ""\n')
    with pytest.raises(DataError, match=r"bad\.po, line 1: invalid UTF-8"):
        Catalog(tmp_path / "bad.po")
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        Catalog(tmp_path)
