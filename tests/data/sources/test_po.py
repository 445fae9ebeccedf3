"""Gettext catalogs as a source."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.sources.reading import any_fixture, pairs, read, write

from regard.data.records import Line, Location, Record, Rejected
from regard.errors import DataError

CATALOGUE = r"""# French translation
#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: x\n"
"Content-Type: text/plain; charset=UTF-8\n"

#: a.py:1
msgid "Good morning"
msgstr "Bonjour"

#. to the translator
#, python-format
msgctxt "menu"
msgid ""
"Say \"%s\"\tand\n"
"C:\\new"
msgstr "Dire « %s »\n"
"et C:\\new"
#, fuzzy, c-format
#| msgid "before"
msgid "guessed"
msgstr "deviné"

msgid "later"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d fichier"
msgstr[1] "%d fichiers"

#, fuzzy
#~ msgid "gone"
#~ msgstr "parti"
msgid "last"
msgstr "dernier"
"""


def catalogue(tmp_path: Path, content: str | bytes) -> list[Line]:
    path = write(tmp_path / "fr.po", content)
    return read(kind="po", path=path, languages=["en", "fr"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_po_reads_a_catalog(tmp_path: Path, end: str) -> None:
    def at(line: int) -> Location:
        return Location(str(tmp_path / "fr.po"), line)

    assert catalogue(tmp_path, CATALOGUE.replace("\n", end)) == [
        Record(at(9), ("Good morning", "Bonjour")),
        Record(at(15), ('Say "%s"\tand\nC:\\new', "Dire « %s »\net C:\\new")),
        Rejected(at(22), "fuzzy", "'guessed'"),
        Rejected(at(25), "untranslated", "'later'"),
        Record(at(28), ("%d file", "%d fichier")),
        Record(at(28), ("%d files", "%d fichiers")),
        Record(at(36), ("last", "dernier")),
    ]


def test_po_assigns_a_single_form_to_the_plural(tmp_path: Path) -> None:
    content = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d ファイル"\n'
    (line,) = catalogue(tmp_path, content)
    assert isinstance(line, Record)
    assert line.texts == ("%d files", "%d ファイル")


@any_fixture
@given(
    st.lists(
        st.tuples(*[st.text(st.characters(codec="utf-8"), min_size=1)] * 2), min_size=1, max_size=5
    ),
    st.booleans(),
)
def test_po_restores_any_text(tmp_path: Path, texts: list[tuple[str, str]], blank: bool) -> None:
    def quoted(text: str) -> str:
        for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
            text = text.replace(character, escaped)
        return f'"{text}"'

    entries = [f"msgid {quoted(fr)}\nmsgstr {quoted(en)}\n" for fr, en in texts]
    lines = catalogue(tmp_path, ("\n" if blank else "").join(entries))
    assert [line.texts for line in lines if isinstance(line, Record)] == texts


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b'msgid "a"\nmsgstr "b', "not gettext"),
        (b'msgid "a"\nmsgid "b"\nmsgstr "c"', "not gettext"),
        (b'"goes on from nothing"', "not gettext"),
        (b"just some text\nand more", "not gettext"),
        (b'msgid "a\\q"\nmsgstr "b"', "not gettext"),
        (b'msgid "a"\nmsgstr "\xe9"', "invalid UTF-8"),
        (b'msgid "a"', "untranslated"),
    ],
)
def test_po_rejects_a_bad_entry_once(tmp_path: Path, bad: bytes, why: str) -> None:
    good = b'msgid "yes"\nmsgstr "oui"\n'
    first, rejected, last = catalogue(tmp_path, good + b"\n" + bad + b"\n\n" + good)
    assert isinstance(first, Record)
    assert isinstance(rejected, Rejected)
    assert isinstance(last, Record)
    assert rejected.reason == why


def test_po_refuses_another_charset(tmp_path: Path) -> None:
    content = CATALOGUE.replace("UTF-8", "ISO-8859-1").replace("version: x", "version: é")
    with pytest.raises(DataError, match=r"fr\.po: the catalog is in ISO-8859-1; convert it"):
        catalogue(tmp_path, content.encode("latin-1", errors="replace"))


def test_po_reads_a_folder(tmp_path: Path) -> None:
    for name in ("b", "a/c"):
        write(tmp_path / f"{name}.po", f'msgid "{name}"\nmsgstr "x"\n')
    write(tmp_path / "README", "no catalogue")
    found = pairs(kind="po", path=tmp_path, languages=["en", "fr"])
    assert found == [("a/c", "x"), ("b", "x")]
