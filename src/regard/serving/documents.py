"""Files that are translated with their structure kept: text, subtitles and gettext catalogs.

.txt   a line for each line; white space around it stays
.srt   numbers, times and positions stay; a subtitle keeps its number of lines, and its markup
.po    messages without a translation are filled in and marked as fuzzy
"""

import re
from bisect import bisect_left
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Protocol

from regard.data.sources.gettext import Catalog
from regard.errors import DataError
from regard.predictors.gettext import fill_catalog, lines_to_translate
from regard.serving.errors import BadRequest, TooLarge

MAX_TEXTS = 20_000  # of a file, those that are the same counted once
TEXTS_AT_ONCE = 64  # in a request to the model, so that others have their turn

BYTE_ORDER_MARK = "\ufeff"
LINE = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)
TIME = r"\d+:\d\d:\d\d[,.]\d{1,3}"
TIMES = re.compile(rf"\s*{TIME}\s*-->\s*{TIME}.*", re.DOTALL)
POSITIONS = re.compile(r"((?:\{\\[^{}]*\}|\s)*(?:[-–—](?!\d)\s*)?)(.*)")  # and a dash; text
WORD = re.compile(r"(?:<[^<>]*>|\S)+")
TAG = re.compile(r"<[^<>]*>")

Translate = Callable[[Sequence[str]], Awaitable[Sequence[str]]]  # as many texts out as in
Translations = Mapping[str, str]  # by text


class Document(Protocol):
    """A file: the texts that are translated, and everything else as it is."""

    is_markup: bool  # its texts have tags
    texts: Sequence[str]  # to translate, each once

    def translated(self, translations: Translations) -> bytes:
        """Return the file with translations of its texts."""
        ...


def parse_document(name: str, content: bytes) -> Document:
    """Return the document of a file.

    Args:
        name: Name of the file, whose extension is its format.
        content: The bytes of the file.

    Raises:
        BadRequest: The format is not known, or the file is not in it.
        TooLarge: The file has too many texts.
    """
    format_ = PurePosixPath(name).suffix.lower()
    if format_ not in FORMATS:
        known = ", ".join(FORMATS)
        raise BadRequest(f"files of this format are not translated, only {known}.", "file")
    document = FORMATS[format_](content)
    if len(document.texts) > MAX_TEXTS:
        raise TooLarge(
            f"the file has {len(document.texts):,} texts, more than {MAX_TEXTS:,}; split it.",
            "file",
        )
    return document


async def translate_in_parts(
    texts: Sequence[str], translate: Translate
) -> AsyncIterator[dict[str, str]]:
    """Yield the translations of texts so far, after each part of them; the last has all."""
    translations: dict[str, str] = {}
    yield translations
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        part = texts[start : start + TEXTS_AT_ONCE]
        translations |= zip(part, await translate(part), strict=True)
        yield translations


class TextFile(Document):
    """Lines, each of which is a text."""

    is_markup = False

    def __init__(self, content: bytes) -> None:
        self._lines = [_stripped(line) for line in _lines(content)]
        self.texts = _distinct(text for _, text, _ in self._lines)

    def translated(self, translations: Translations) -> bytes:
        """Return the file with translations of its lines."""
        lines = (
            before + (_one_line(translations[text]) if text else "") + after
            for before, text, after in self._lines
        )
        return "".join(lines).encode()


class Subtitles(Document):
    """Subtitles (SubRip): a number, a line with two times, and lines of text.

    What one person says may take several lines: it is one text, and its translation is divided
    into as many lines of similar lengths. A line that begins with a dash begins another text.
    """

    is_markup = True  # <i>, <b>, <font …>

    def __init__(self, content: bytes) -> None:
        self._parts: list[str | _Speech] = []
        for is_text, group in groupby(_marked(_lines(content)), key=lambda item: item[0]):
            lines = [line for _, line in group]
            self._parts += _speeches(lines) if is_text else lines
        self.texts = _distinct(part.text for part in self._parts if isinstance(part, _Speech))

    def translated(self, translations: Translations) -> bytes:
        """Return the subtitles with translations of what is said."""
        parts = (
            part.translated(translations) if isinstance(part, _Speech) else part
            for part in self._parts
        )
        return "".join(parts).encode()


class CatalogFile(Document):
    """A gettext catalog; a message whose translation lacks a placeholder stays untranslated."""

    is_markup = False

    def __init__(self, content: bytes) -> None:
        try:
            self._catalog = Catalog(Path("the file"), content)
        except DataError as error:
            raise BadRequest(str(error), "file") from None
        self.texts = lines_to_translate(self._catalog)

    def translated(self, translations: Translations) -> bytes:
        """Return the catalog with translations of its messages."""
        lines = {text: _one_line(translation) for text, translation in translations.items()}
        return fill_catalog(self._catalog, lines)[0]


FORMATS: Mapping[str, Callable[[bytes], Document]] = {
    ".txt": TextFile,
    ".srt": Subtitles,
    ".po": CatalogFile,
}


def _marked(lines: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Yield each line of subtitles, and whether it is text: after times, before a blank line."""
    is_text = False
    for line in lines:
        is_text = is_text and bool(line.strip())
        yield is_text, line
        is_text = is_text or TIMES.fullmatch(line) is not None


@dataclass(frozen=True)
class _Speech:
    """Lines of one person in a subtitle."""

    before: str  # positions and a dash
    text: str
    ends: tuple[str, ...]  # of its lines

    def translated(self, translations: Translations) -> str:
        """Return the lines with the translation of the text."""
        text = _one_line(translations[self.text]) if self.text else ""
        lines = _balanced(text, len(self.ends))
        ends = (*self.ends[: len(lines) - 1], self.ends[-1])
        return self.before + "".join(line + end for line, end in zip(lines, ends, strict=True))


def _speeches(lines: Sequence[str]) -> list[_Speech]:
    """Return what each person says in the lines of a subtitle."""
    speeches: list[tuple[str, list[str], list[str]]] = []
    for line in lines:
        text = line.rstrip("\r\n")
        match = POSITIONS.fullmatch(text)
        assert match is not None  # every part may be empty
        before, words = match.groups()
        if before.strip() or not speeches:
            speeches.append((before, [], []))
        speeches[-1][1].append(words.strip())
        speeches[-1][2].append(line[len(text) :])
    return [
        _Speech(before, " ".join(filter(None, words)), tuple(ends))
        for before, words, ends in speeches
    ]


def _balanced(text: str, count: int) -> list[str]:
    """Divide a text between words into at most `count` lines, the longest as short as possible."""
    words = WORD.findall(text)
    sizes = [len(TAG.sub("", word)) + 1 for word in words]
    if count == 1 or len(words) < 2:
        return [text]
    width = bisect_left(
        range(sum(sizes)), True, key=lambda width: len(_filled(words, sizes, width)) <= count
    )
    return _filled(words, sizes, width)


def _filled(words: Sequence[str], sizes: Sequence[int], width: int) -> list[str]:
    """Return lines of words with at most `width` characters, longer words excepted."""
    lines: list[str] = []
    room = 0
    for word, size in zip(words, sizes, strict=True):
        if lines and size <= room:
            lines[-1] += f" {word}"
            room -= size
        else:
            lines.append(word)
            room = width - size
    return lines


def _lines(content: bytes) -> list[str]:
    """Return the lines of a text, each with its end; a byte order mark is a line without one.

    Raises:
        BadRequest: The bytes are no text in UTF-8.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(
            f"byte {error.start + 1:,} of the file is not UTF-8; convert it to UTF-8 first.", "file"
        ) from None
    if "\0" in text:
        raise BadRequest("the file has null characters; convert it to UTF-8 first.", "file")
    mark = [BYTE_ORDER_MARK] if text.startswith(BYTE_ORDER_MARK) else []
    return [*mark, *re.findall(r"[^\n]*\n|[^\n]+", text.removeprefix(BYTE_ORDER_MARK))]


def _stripped(line: str) -> tuple[str, str, str]:
    """Return the white space before a text, the text, and the white space after it."""
    if line == BYTE_ORDER_MARK:
        return line, "", ""
    match = LINE.fullmatch(line)
    assert match is not None  # every part may be empty
    return match[1], match[2], match[3]


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text))
