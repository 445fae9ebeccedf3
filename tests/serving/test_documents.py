"""Files are translated with everything but their texts as it was."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from regard.data.sources.gettext import Catalog
from regard.serving.documents import (
    MAX_TEXTS,
    TEXTS_AT_ONCE,
    Document,
    parse_document,
    translate_in_parts,
)
from regard.serving.errors import BadRequest, TooLarge

SUBTITLES = """\
1
00:00:01,000 --> 00:00:03,500
Hello.

2
00:00:04,000 --> 00:00:08,000 X1:10 X2:20
{\\an8}<i>I do not know what you
want to do with all of this.</i>

3
00:01:00,000 --> 00:01:02,000
- Are you coming?
- No. It is -5 degrees
outside.
"""
CATALOG = """\
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#: main.c
msgid "Open %s"
msgstr ""

msgid "Close"
msgstr "Fermer"

msgid "first\\n"
"second\\n"
msgstr ""
"""


def in_capitals(document: Document) -> str:
    return document.translated({text: text.upper() for text in document.texts}).decode()


def test_text_keeps_its_lines_and_white_space() -> None:
    document = parse_document("notes.TXT", "\ufeffone\r\n\r\n  two \n\tone".encode())
    assert document.texts == ["one", "two"]
    assert in_capitals(document) == "\ufeffONE\r\n\r\n  TWO \n\tONE"


def test_a_translation_of_a_line_is_one_line() -> None:
    assert parse_document("a.txt", b"one\n").translated({"one": "a\nb"}) == b"a b\n"


def test_subtitles_keep_numbers_times_positions_and_the_number_of_their_lines() -> None:
    document = parse_document("film.srt", SUBTITLES.encode())
    assert document.texts == [
        "Hello.",
        "<i>I do not know what you want to do with all of this.</i>",
        "Are you coming?",
        "No. It is -5 degrees outside.",
    ]
    assert document.is_markup
    translation = "<i>JE NE SAIS PAS CE QUE TU COMPTES FAIRE</i>"
    lines = document.translated(
        {text: text.upper() for text in document.texts} | {document.texts[1]: translation}
    )
    assert lines.decode() == SUBTITLES.replace("Hello.", "HELLO.").replace(
        "<i>I do not know what you\nwant to do with all of this.</i>",
        "<i>JE NE SAIS PAS CE\nQUE TU COMPTES FAIRE</i>",
    ).replace("- Are you coming?", "- ARE YOU COMING?").replace(
        "- No. It is -5 degrees\noutside.", "- NO. IT IS -5\nDEGREES OUTSIDE."
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1\n00:00:01,000 --> 00:00:02,000\n\n2\n",
        b"no times here\n\nat all",
        b"1\r\n00:00:01.000 --> 00:00:02.000\r\nA\r\n\r\n",
        b"1\n00:00:01,000 --> 00:00:02,000\nA",
        b"1\n00:00:01,000 --> 00:00:02,000\n-\n- B\n",
    ],
)
def test_any_subtitles_stay_as_they_are_but_for_their_texts(content: bytes) -> None:
    document = parse_document("film.srt", content)
    assert document.translated({text: text for text in document.texts}) == content


def test_a_catalog_is_filled_and_a_message_without_its_placeholder_stays_untranslated() -> None:
    document = parse_document("fr.po", CATALOG.encode())
    assert document.texts == ["Open %s", "first", "second"]
    translations = {"Open %s": "Ouvrir", "first": "un", "second": "deux"}
    filled = document.translated(translations)
    assert Catalog(Path("fr.po"), filled).untranslated_texts() == ["Open %s"]
    assert b'"un\\n"\n"deux\\n"\n' in filled


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.docx", b"", "files of this format"),
        ("txt", b"", "files of this format"),
        ("a.txt", b"caf\xe9", "byte 4 of the file is not UTF-8"),
        ("a.srt", b"a\0b", "null characters"),
        ("a.po", b"msgid", "not gettext"),
        ("a.po", "msgid".encode("utf-16"), "UTF-16"),
    ],
)
def test_files_of_other_formats_are_refused(name: str, content: bytes, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        parse_document(name, content)


def test_a_file_with_too_many_texts_is_refused() -> None:
    lines = "".join(f"{number}\n" for number in range(MAX_TEXTS + 1))
    with pytest.raises(TooLarge):
        parse_document("a.txt", lines.encode())


def test_texts_are_translated_in_parts() -> None:
    texts = [str(number) for number in range(2 * TEXTS_AT_ONCE + 1)]

    async def translate(part: Sequence[str]) -> Sequence[str]:
        return [text * 2 for text in part]

    async def sizes() -> list[int]:
        return [len(own) async for own in translate_in_parts(texts, translate)]

    assert asyncio.run(sizes()) == [0, TEXTS_AT_ONCE, 2 * TEXTS_AT_ONCE, len(texts)]
