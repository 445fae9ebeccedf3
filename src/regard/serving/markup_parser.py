"""Parse HTML and XML into the texts that are translated and the markup that is copied.

Block elements, such as <p>, separate texts. Inline elements, such as <b>, are parts of a text;
those that are copied with their content are marked as such. An element of a name that HTML does not
have, as in XML, is inline if there is text beside it.

An element that does not fit into one text separates texts as well, so markup that was balanced
stays balanced: an inline element around blocks, tags that overlap, and tags without a partner.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from html import unescape
from html.parser import HTMLParser
from typing import NamedTuple

from regard.errors import DataError
from regard.serving.inline_tags import LETTER, Element, Span, TaggedText

MAX_DEPTH = 16  # of inline elements in each other; deeper ones separate texts
MAX_INLINE = 200  # inline elements of a text; of one with more, they separate texts


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


INLINE = _names(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark nobr q rp rt ruby s "
    "small span strike strong sub sup time tt u"
)
INLINE_VOID = _names("img input wbr")
COPIED_INLINE = _names("code kbd math samp svg var")
COPIED_BLOCK = _names("pre script style textarea")
VOID = INLINE_VOID | _names("area base br col embed hr link meta param source track")
BLOCK = _names(
    "address article aside audio blockquote body button canvas caption center colgroup dd details "
    "dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 "
    "head header hgroup html iframe legend li main map menu nav noframes noscript object ol "
    "optgroup option output p picture progress section select summary table tbody td template "
    "tfoot th thead title tr ul video"
)
NOT_INLINE = BLOCK | COPIED_BLOCK | (VOID - INLINE_VOID)

WHITESPACE = " \t\n\r\f"  # of HTML; a no-break space is a character
SPACES = re.compile(f"[{WHITESPACE}]+")
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{0,31});")
ESCAPES = {"&": "&amp;", "<": "&lt;"}


@dataclass(frozen=True)
class BlockText:
    """The text of a block with its inline elements."""

    tagged: TaggedText
    before: str = ""  # white space
    after: str = ""
    entities: Mapping[int, str] = field(default_factory=dict)  # by the character that each is
    is_plain: bool = False  # the document has no markup at all

    @property
    def text(self) -> str:
        """The text without its markup."""
        return self.tagged.text

    def escaped(self, text: str) -> str:
        """Return a text as markup."""
        return text if self.is_plain else text.translate(self.entities)


Part = str | BlockText  # of a document: markup that is copied, or a text


def parse(document: str) -> list[Part]:
    """Return the parts of a document; concatenated, with the sources of the texts, they are it.

    Raises:
        DataError: The markup cannot be parsed.
    """
    tokens = _Tokenizer(document).tokens
    if all(token.kind is _Kind.TEXT for token in tokens) and unescape(document) == document:
        return [BlockText(TaggedText(document), is_plain=True)] if document.strip() else [document]
    items = _items(tokens)
    _separate_misfits(items)
    _separate_crowds(items)
    return [part for run, separator in _runs(items) for part in (*_block(run), separator)]


class _Kind(Enum):
    TEXT = auto()
    START = auto()
    END = auto()
    EMPTY = auto()  # <br>, <x/>
    COMMENT = auto()
    OTHER = auto()


class _Token(NamedTuple):
    """A tag, a text or another part of a document, with its source."""

    kind: _Kind
    source: str
    tag: str = ""
    is_copied: bool = False  # with the content of its element


class _Tokenizer(HTMLParser):
    """The tokens of a document: their sources, concatenated, are the document.

    The parser stops at a comment or tag that does not end: the rest is text. It is not closed,
    because then it would search the rest again for each "<" in it, in quadratic time.
    """

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self._document = document
        self._lines = [0, *(match.end() for match in re.finditer("\n", document))]
        self._begun: list[tuple[int, _Kind, str, bool]] = [(0, _Kind.OTHER, "", False)]
        try:
            self.feed(document)
        except AssertionError:  # of the standard library, at "<![…"
            raise DataError("the markup cannot be parsed: it has a wrong declaration.") from None
        if self.rawdata:
            self._begun.append((len(document) - len(self.rawdata), self._kind_of_data, "", False))

    @property
    def tokens(self) -> list[_Token]:
        """The tokens, in order."""
        ends = [*(start for start, *_ in self._begun[1:]), len(self._document)]
        tokens = [
            _Token(kind, self._document[start:end], tag, is_copied)
            for (start, kind, tag, is_copied), end in zip(self._begun, ends, strict=True)
        ]
        return [token for token in tokens if token.source]

    @property
    def _kind_of_data(self) -> "_Kind":
        is_code = self.cdata_elem in self.CDATA_CONTENT_ELEMENTS
        return _Kind.OTHER if is_code else _Kind.TEXT

    def _begin(self, kind: _Kind, tag: str = "", is_copied: bool = False) -> None:
        line, column = self.getpos()
        self._begun.append((self._lines[line - 1] + column, kind, tag, is_copied))

    def handle_data(self, data: str) -> None:
        self._begin(self._kind_of_data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: (value or "").lower() for name, value in attrs}
        is_copied = (
            tag in COPIED_INLINE
            or tag in COPIED_BLOCK
            or attributes.get("translate") == "no"
            or "notranslate" in attributes.get("class", "").split()
        )
        self._begin(_Kind.EMPTY if tag in VOID else _Kind.START, tag, is_copied)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._begin(_Kind.EMPTY, tag)

    def handle_endtag(self, tag: str) -> None:
        self._begin(_Kind.END, tag)

    def handle_comment(self, data: str) -> None:
        self._begin(_Kind.COMMENT)

    def handle_decl(self, decl: str) -> None:
        self._begin(_Kind.OTHER)

    def handle_pi(self, data: str) -> None:
        self._begin(_Kind.OTHER)

    def unknown_decl(self, data: str) -> None:
        self._begin(_Kind.OTHER)


def _partners(tokens: Sequence[_Token]) -> dict[int, int]:
    """Return the index of the end tag of each start tag that has one."""
    partners: dict[int, int] = {}
    stack: list[int] = []
    is_open = Counter[str]()
    for index, token in enumerate(tokens):
        if token.kind is _Kind.START:
            stack.append(index)
            is_open[token.tag] += 1
        elif token.kind is _Kind.END and is_open[token.tag]:
            tag = ""
            while tag != token.tag:  # elements without an end tag end here, too
                start = stack.pop()
                tag = tokens[start].tag
                is_open[tag] -= 1
            partners[start] = index
    return partners


class _Role(Enum):
    TEXT = auto()
    OPENING = auto()
    CLOSING = auto()
    COPIED = auto()  # inside a text
    SEPARATOR = auto()


@dataclass
class _Item:
    """A token, or an element that is copied with its content, and its role."""

    role: _Role
    source: str = ""
    text: str = ""


def _items(tokens: Sequence[_Token]) -> list[_Item]:
    """Return the roles of tokens; openings and closings are balanced."""
    partners = _partners(tokens)
    closings: set[int] = set()
    items: list[_Item] = []
    index = 0
    while index < len(tokens):
        token, end = tokens[index], partners.get(index)
        if end is None:
            items.append(_single(token, index in closings))
        elif token.is_copied:
            items.append(_copied(tokens[index : end + 1], _is_inline(tokens, index, end)))
            index = end
        elif _is_inline(tokens, index, end):
            closings.add(end)
            items.append(_Item(_Role.OPENING, token.source))
        else:
            items.append(_Item(_Role.SEPARATOR, token.source))
        index += 1
    return items


def _single(token: _Token, is_closing: bool) -> _Item:
    """Return the item of a token that begins no element."""
    if token.kind is _Kind.TEXT:
        return _Item(_Role.TEXT, token.source, unescape(token.source))
    if is_closing:
        return _Item(_Role.CLOSING, token.source)
    is_inline = token.tag not in NOT_INLINE
    if token.kind is _Kind.COMMENT or (token.kind is _Kind.EMPTY and is_inline):
        return _Item(_Role.COPIED, token.source)
    return _Item(_Role.SEPARATOR, token.source)


def _copied(tokens: Sequence[_Token], is_inline: bool) -> _Item:
    """Return the item of an element that is copied with its content."""
    source = "".join(token.source for token in tokens)
    if not is_inline:
        return _Item(_Role.SEPARATOR, source)
    text = "".join(unescape(token.source) for token in tokens if token.kind is _Kind.TEXT)
    return _Item(_Role.COPIED, source, SPACES.sub(" ", text).strip(" "))


def _is_inline(tokens: Sequence[_Token], start: int, end: int) -> bool:
    """Return whether an element is inline: by its name, or, of one unknown, by text beside it."""
    tag = tokens[start].tag
    if tag in INLINE or tag in COPIED_INLINE or tag in NOT_INLINE:
        return tag not in NOT_INLINE
    beside = (*tokens[max(start - 1, 0) : start], *tokens[end + 1 : end + 2])
    return any(token.kind is _Kind.TEXT and not token.source.isspace() for token in beside)


def _separate_misfits(items: Sequence[_Item]) -> None:
    """Make tags separators whose element contains one, or is too deep in others."""
    stack: list[int] = []
    last_separator = -1
    for index, item in enumerate(items):
        if item.role is _Role.SEPARATOR:
            last_separator = index
        elif item.role is _Role.OPENING:
            stack.append(index)
        elif item.role is _Role.CLOSING:
            opening = stack.pop()
            if last_separator > opening or len(stack) >= MAX_DEPTH:
                items[opening].role = item.role = _Role.SEPARATOR
                last_separator = index


def _runs(items: Sequence[_Item]) -> Iterator[tuple[list[_Item], str]]:
    """Yield the items before each separator, and the separator; the last one is empty."""
    run: list[_Item] = []
    for item in items:
        if item.role is _Role.SEPARATOR:
            yield run, item.source
            run = []
        else:
            run.append(item)
    yield run, ""


def _is_crowded(run: Sequence[_Item]) -> bool:
    return sum(item.role in (_Role.OPENING, _Role.COPIED) for item in run) > MAX_INLINE


def _separate_crowds(items: Sequence[_Item]) -> None:
    """Make the tags of texts separators that have too many of them."""
    for run, _ in _runs(items):
        if _is_crowded(run):
            for item in run:
                if item.role is not _Role.TEXT:
                    item.role = _Role.SEPARATOR


def _block(run: Sequence[_Item]) -> list[Part]:
    """Return the parts of items between separators: a text, if there is a letter in them."""
    filled = [index for index, item in enumerate(run) if not _is_blank(item)]
    first, end = (filled[0], filled[-1] + 1) if filled else (0, 0)
    own = run[first:end]
    text = "".join(item.text for item in own if item.role is _Role.TEXT)
    if not LETTER.search(text):
        return [_source(run)]
    before = text[: len(text) - len(text.lstrip(WHITESPACE))]
    after = text[len(text.rstrip(WHITESPACE)) :]
    block = BlockText(_tagged_text(own), before, after, _entities(own))
    return [_source(run[:first]), block, _source(run[end:])]


def _is_blank(item: _Item) -> bool:
    """Return whether an item is white space, or markup without a text: an image, a comment."""
    return item.role in (_Role.TEXT, _Role.COPIED) and not item.text.strip(WHITESPACE)


def _source(items: Sequence[_Item]) -> str:
    return "".join(item.source for item in items)


def _tagged_text(run: Sequence[_Item]) -> TaggedText:
    """Return the text of items with its inline elements, white space as HTML shows it."""
    text = ""
    openings: list[tuple[int, int]] = []  # of open elements: number of the item, position
    elements: list[list[Element]] = [[]]  # of the text, and inside of each open element
    for number, item in enumerate(run):
        if item.role is _Role.OPENING:
            openings.append((number, len(text)))
            elements.append([])
        elif item.role is _Role.CLOSING:
            opening, start = openings.pop()
            element = _element(run[opening : number + 1], text, start, elements.pop())
            elements[-1].append(element)
        else:
            words = SPACES.sub(" ", item.text)
            words = words.lstrip(" ") if not text or text.endswith(" ") else words
            if item.role is _Role.COPIED:
                span = Span(len(text), len(text) + len(words))
                elements[-1].append(Element(span, item.source))
            text += words
    return TaggedText(text.rstrip(" "), tuple(elements[0]))


def _element(items: Sequence[_Item], text: str, start: int, children: Sequence[Element]) -> Element:
    """Return the element of items that begin and end with its tags; an empty one is copied.

    Args:
        text: The text up to its end.
        start: Where in the text it begins.
    """
    content = text[start:]
    if not content.strip(" "):
        return Element(Span(start, start), _source(items))
    first = start + len(content) - len(content.lstrip(" "))
    span = Span(first, start + len(content.rstrip(" ")))
    return Element(span, items[0].source, items[-1].source, tuple(children))


def _entities(run: Sequence[_Item]) -> dict[int, str]:
    """Return the entities of texts by the characters that they stand for, letters left out."""
    entities = {
        unescape(entity): entity
        for item in run
        if item.role is _Role.TEXT
        for entity in ENTITY.findall(item.source)
    }
    special = {
        character: entity
        for character, entity in entities.items()
        if len(character) == 1 and not (character.isascii() and character.isalnum())
    }
    return {ord(character): entity for character, entity in (ESCAPES | special).items()}
