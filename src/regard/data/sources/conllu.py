"""CoNLL-U: sentences with dependency trees, ten columns a word (universaldependencies.org).

    # label = negative
    # text = They don't.
    1    They   they  PRON  …  2  nsubj  …           id, form, lemma, tag, own tag, features,
    2-3  don't  …                                    head, relation, more heads, notes
    2    do     do    AUX   …  0  root   …
    3    n't    not   PART  …  2  advmod …
    4    .      .     PUNCT …  2  punct  …

A multiword token such as 2-3 is written once and is several words; an empty node such as 2.1 is no
word and is skipped. The text is the tokens one after the other, with a space after each except
where SpaceAfter=No; `# text` must agree with it, and a sentence without `# text` gets it. As a
source, each sentence has its label in a comment.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources.base import LabeledSpec, TextFileSpec
from regard.data.sources.characters import quote
from regard.data.sources.lines import decode, stream_lines
from regard.data.sources.trees import ParsedText, Tree, depths
from regard.errors import DataError

COLUMNS = 10
ID, FORM, TAG, FEATURES, HEAD, RELATION, NOTES = 0, 1, 3, 5, 6, 7, 9
EXCERPT = 20  # characters of a text that an error quotes
DIGITS = 9  # of a number, at most: a longer one is damage, and Python refuses thousands of them
MAX_LINES = 100_000  # of a sentence; more, without a blank line, would fill the memory

Row = tuple[Location, list[str]]  # location and columns of a line


class Spec(TextFileSpec, LabeledSpec):
    """{kind: conllu, path: reviews.conllu, comment: label}"""

    trees: ClassVar[bool] = True

    path: Path = Field(..., description="a CoNLL-U file; gzip or plain")
    comment: str = Field("label", description="comment with the label: label for # label = good")

    def records(self) -> Iterator[Line]:
        for sentence in read_conllu(self.path, self.encoding):
            if isinstance(sentence, Rejected):
                yield sentence
            elif self.comment not in sentence.comments:
                detail = f"the sentence has no comment # {self.comment} = …"
                yield Rejected(sentence.location, "missing label", detail)
            else:
                value = sentence.comments[self.comment]
                line = self.labeled_record(sentence.location, [sentence.text], value)
                yield replace(line, tree=sentence.tree) if isinstance(line, Record) else line

    def files(self) -> list[Path]:
        return [self.path]


@dataclass(frozen=True)
class Word:
    """A word of a sentence."""

    location: Location
    form: str
    tag: str  # NOUN, VERB …
    features: Mapping[str, str]  # Number: Sing …
    relation: str  # to its head: nsubj …
    is_token: bool  # False for a word of a multiword token (don't)


@dataclass(frozen=True)
class Sentence:
    """A sentence with its text, words and tree."""

    location: Location
    text: str
    tree: Tree
    words: tuple[Word, ...]
    comments: Mapping[str, str]  # of lines such as "# label = good"


class _InvalidSentenceError(Exception):
    """Carries the reason for rejecting a sentence."""

    def __init__(self, location: Location, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.rejected = Rejected(location, reason, detail)


@dataclass(frozen=True)
class _Token:
    """A token as it is written: one word, or several."""

    location: Location
    form: str
    words: range
    space_after: bool


def read_conllu(path: Path, encoding: str | None = None) -> Iterator[Sentence | Rejected]:
    """Yield every sentence of a file in order, or what is wrong with it and where."""
    lines: list[tuple[Location, str]] = []
    rejected: Rejected | None = None  # the first line of a sentence that cannot be used
    for number, line in stream_lines(path, encoding):
        location = Location(str(path), number)
        text = decode(line, location)
        if isinstance(text, str) and not text.strip():
            yield from _parse_block(lines) if rejected is None else [rejected]
            lines, rejected = [], None
        elif rejected is not None:
            continue
        elif isinstance(text, Rejected):
            rejected = text
        elif len(lines) == MAX_LINES:
            detail = f"more than {MAX_LINES:,} lines without a blank one"
            rejected = Rejected(location, "too long", detail)
        else:
            lines.append((location, text))
    yield from _parse_block(lines) if rejected is None else [rejected]


def parsed_sentences(path: Path) -> Iterator[ParsedText]:
    """Yield the sentences of a file with their trees; raises DataError at an invalid one."""
    sentence = None
    for sentence in read_conllu(path):
        if isinstance(sentence, Rejected):
            raise sentence.error()
        yield ParsedText(sentence.text, sentence.tree)
    if sentence is None:
        raise DataError(f"{path}: there is no sentence in it.")


def is_conllu(path: Path) -> bool:
    """Return True if the file name is that of a CoNLL-U file."""
    return path.name.removesuffix(".gz").endswith(".conllu")


def _parse_block(lines: Sequence[tuple[Location, str]]) -> list[Sentence | Rejected]:
    """Parse the lines between two blank ones: a sentence, or nothing if all are comments."""
    if all(text.startswith("#") for _, text in lines):
        return []
    try:
        return [_parse_sentence(lines)]
    except _InvalidSentenceError as error:
        return [error.rejected]


def _parse_sentence(lines: Sequence[tuple[Location, str]]) -> Sentence:
    comments: dict[str, str] = {}
    rows: list[Row] = []
    for location, line in lines:
        key, equals, value = line.removeprefix("#").partition("=")
        if not line.startswith("#"):
            rows.append((location, _columns(location, line)))
        elif equals:
            comments[key.strip()] = value.strip()
    words = [row for row in rows if _is_number(row[1][ID])]
    tokens = _tokens(rows)
    heads = _heads(words)
    text = comments.get("text", _text(tokens))
    spans = _spans(tokens, text)
    of_words = [
        (token, span) for token, span in zip(tokens, spans, strict=True) for _ in token.words
    ]
    return Sentence(
        location=words[0][0],
        text=text,
        tree=Tree(tuple(span for _, span in of_words), tuple(heads)),
        words=tuple(
            Word(
                location, row[FORM], row[TAG], _features(row), row[RELATION], len(token.words) == 1
            )
            for (location, row), (token, _) in zip(words, of_words, strict=True)
        ),
        comments=comments,
    )


def _columns(location: Location, line: str) -> list[str]:
    columns = line.split("\t")
    if len(columns) != COLUMNS:
        detail = f"there are {len(columns)} columns between tabs, and a word has {COLUMNS}"
        raise _InvalidSentenceError(location, "bad columns", detail)
    if not columns[FORM].strip():
        raise _InvalidSentenceError(location, "bad columns", "the second, the form, is empty")
    return columns


def _tokens(rows: Sequence[Row]) -> list[_Token]:
    """Return the tokens in order; each word is in one, and words are numbered from 1 on."""
    tokens: list[_Token] = []
    words = covered = 0  # number of words, and of words that the tokens so far consist of
    for location, row in rows:
        number, dash, end = row[ID].partition("-")
        if _is_empty_node(row[ID]):
            continue
        if not _is_number(number) or (dash and not _is_number(end)):
            detail = f"{quote(row[ID])} is not the number of a word"
            raise _InvalidSentenceError(location, "bad number", detail)
        if int(number) != words + 1 or (end and words < covered):
            detail = f"word {words} is followed by {row[ID]}"
            raise _InvalidSentenceError(location, "bad number", detail)
        if end and int(end) < int(number):
            raise _InvalidSentenceError(location, "bad number", f"{row[ID]} ends before it begins")
        words += not end
        if words > covered or end:
            covered = int(end or number)
            space_after = "SpaceAfter=No" not in row[NOTES].split("|")
            of_token = range(int(number) - 1, covered)
            tokens.append(_Token(location, row[FORM], of_token, space_after))
    if words < covered or not words:
        detail = f"the tokens have {covered} words, and there are {words}"
        raise _InvalidSentenceError(rows[-1][0], "words missing", detail)
    return tokens


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= DIGITS


def _is_empty_node(number: str) -> bool:
    before, dot, after = number.partition(".")
    return bool(dot) and before.isdecimal() and after.isdecimal()


def _heads(words: Sequence[Row]) -> list[int]:
    """Return the head of each word, counted from 0; the root is its own head."""
    heads = []
    for word, (location, row) in enumerate(words):
        if not _is_number(row[HEAD]):
            detail = f"the head of {row[FORM]!r} is {quote(row[HEAD])}"
            raise _InvalidSentenceError(location, "missing head", detail)
        head = int(row[HEAD])
        if head > len(words):
            detail = f"the head of {row[FORM]!r} is {head}, and there are {len(words)} words"
            raise _InvalidSentenceError(location, "missing head", detail)
        heads.append(head - 1 if head else word)
    for (location, row), depth in zip(words, depths(heads), strict=True):
        if depth < 0 or row[HEAD] == row[ID]:
            detail = f"the heads above {row[FORM]!r} form a cycle and never reach a root"
            raise _InvalidSentenceError(location, "cycle", detail)
    roots = [location for location, row in words if int(row[HEAD]) == 0]
    if len(roots) > 1:
        detail = f"there are {len(roots)}, and a tree has one"
        raise _InvalidSentenceError(roots[1], "several roots", detail)
    return heads


def _text(tokens: Sequence[_Token]) -> str:
    return "".join(token.form + " " * token.space_after for token in tokens).rstrip(" ")


def _spans(tokens: Sequence[_Token], text: str) -> list[tuple[int, int]]:
    """Return the characters of each token; together they must make up the text."""
    spans, at, space_before = [], 0, False
    for token in tokens:
        begin = at
        while space_before and text[begin : begin + 1].isspace():
            begin += 1
        if (space_before and begin == at) or not text.startswith(token.form, begin):
            rest = text[at : at + EXCERPT]
            detail = f"{token.form!r}, where the text has {rest!r}"
            raise _InvalidSentenceError(token.location, "not in the text", detail)
        at, space_before = begin + len(token.form), token.space_after
        spans.append((begin, at))
    if text[at:].strip():
        detail = f"after the last word the text continues with {text[at : at + EXCERPT]!r}"
        raise _InvalidSentenceError(tokens[-1].location, "not in the text", detail)
    return spans


def _features(row: Sequence[str]) -> dict[str, str]:
    pairs = (feature.partition("=") for feature in row[FEATURES].split("|"))
    return {name: value for name, equals, value in pairs if equals}
