"""CoNLL-U: sentences with their dependency trees, ten columns a word (universaldependencies.org).

    # text = They don't.
    1    They   they  PRON  …  2  nsubj  …           id, form, lemma, tag, own tag, features,
    2-3  don't  …                                    head, relation, more heads, notes
    2    do     do    AUX   …  0  root   …
    3    n't    not   PART  …  2  advmod …
    4    .      .     PUNCT …  2  punct  …

A token such as 2-3 is written once and is several words; an empty node such as 2.1 is no word and
is passed over. What is written is the tokens one after the other, with a space after each but
where SpaceAfter=No: `# text` must say the same, and a sentence without it is put together so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.records import Place, Rejected
from regard.data.sources.lines import decode, stream_lines
from regard.data.sources.trees import Parsed, Tree, depths
from regard.errors import DataError

COLUMNS = 10
ID, FORM, TAG, FEATURES, HEAD, RELATION, NOTES = 0, 1, 3, 5, 6, 7, 9
SHOWN = 20  # characters of a text, where it goes another way than its words

Row = tuple[Place, list[str]]  # where a line stands, and its columns


@dataclass(frozen=True)
class Word:
    place: Place
    form: str
    tag: str  # NOUN, VERB …
    features: Mapping[str, str]  # Number: Sing …
    relation: str  # to its head: nsubj …
    written: bool  # as a token of its own, not as part of one (don't)


@dataclass(frozen=True)
class Sentence:
    place: Place
    text: str
    tree: Tree
    words: tuple[Word, ...]
    comments: Mapping[str, str]  # of lines such as "# label = good"


class _WrongError(Exception):
    """Why a sentence cannot be one."""

    def __init__(self, place: Place, why: str, found: str) -> None:
        super().__init__(why)
        self.rejected = Rejected(place, why, found)


@dataclass(frozen=True)
class _Token:
    """What is written in one go: a word, or several."""

    place: Place
    form: str
    words: range
    spaced: bool  # is there a space after it?


def read_conllu(path: Path) -> Iterator[Sentence | Rejected]:
    """Every sentence of a file, in order, or what is wrong with it and where."""
    lines: list[tuple[Place, str]] = []
    wrong: list[Rejected] = []
    for number, line in stream_lines(path):
        place = Place(str(path), number)
        text = decode(line, place)
        if isinstance(text, Rejected):
            wrong.append(text)
        elif text.strip():
            lines.append((place, text))
        else:
            yield from wrong[:1] or _block(lines)
            lines, wrong = [], []
    yield from wrong[:1] or _block(lines)


def parsed_sentences(path: Path) -> Iterator[Parsed]:
    """The sentences of a file with their trees; one that is wrong ends it."""
    sentence = None
    for sentence in read_conllu(path):
        if isinstance(sentence, Rejected):
            raise DataError(f"{sentence.place}: {sentence.why} ({sentence.found}); mend the line.")
        yield Parsed(sentence.text, sentence.tree)
    if sentence is None:
        raise DataError(f"{path}: there is no sentence in it.")


def is_conllu(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(".conllu")


def _block(lines: Sequence[tuple[Place, str]]) -> list[Sentence | Rejected]:
    """The lines between two blank ones: a sentence, unless there is nothing or only comments."""
    if all(text.startswith("#") for _, text in lines):
        return []
    try:
        return [_sentence(lines)]
    except _WrongError as error:
        return [error.rejected]


def _sentence(lines: Sequence[tuple[Place, str]]) -> Sentence:
    comments: dict[str, str] = {}
    rows: list[Row] = []
    for place, line in lines:
        key, equals, value = line.removeprefix("#").partition("=")
        if not line.startswith("#"):
            rows.append((place, _columns(place, line)))
        elif equals:
            comments[key.strip()] = value.strip()
    words = [row for row in rows if row[1][ID].isdecimal()]
    tokens = _tokens(rows)
    heads = _heads(words)
    text = comments.get("text", _text(tokens))
    spans = _spans(tokens, text)
    inside = [(token, span) for token, span in zip(tokens, spans, strict=True) for _ in token.words]
    return Sentence(
        place=words[0][0],
        text=text,
        tree=Tree(tuple(span for _, span in inside), tuple(heads)),
        words=tuple(
            Word(place, row[FORM], row[TAG], _features(row), row[RELATION], len(token.words) == 1)
            for (place, row), (token, _) in zip(words, inside, strict=True)
        ),
        comments=comments,
    )


def _columns(place: Place, line: str) -> list[str]:
    columns = line.split("\t")
    if len(columns) != COLUMNS:
        found = f"there are {len(columns)} with tabs between them, and a word has {COLUMNS}"
        raise _WrongError(place, "bad columns", found)
    if not columns[FORM].strip():
        raise _WrongError(place, "bad columns", "the second, what is written, is empty")
    return columns


def _tokens(rows: Sequence[Row]) -> list[_Token]:
    """In order; each word belongs to one, and words are numbered from 1 without a gap."""
    found: list[_Token] = []
    words = promised = 0  # words so far, and those that belong to tokens so far
    for place, row in rows:
        number, _, end = row[ID].partition("-")
        if _is_empty_node(row[ID]):
            continue
        if not number.isdecimal() or not (end or number).isdecimal():
            raise _WrongError(place, "bad number", f"{row[ID]!r} is no number of a word")
        if int(number) != words + 1 or (end and words < promised):
            raise _WrongError(place, "bad number", f"after word {words} comes {row[ID]}")
        if end and int(end) < int(number):
            raise _WrongError(place, "bad number", f"{row[ID]} ends before it begins")
        words += not end
        if words > promised or end:
            promised = int(end or number)
            spaced = "SpaceAfter=No" not in row[NOTES].split("|")
            found.append(_Token(place, row[FORM], range(int(number) - 1, promised), spaced))
    if words < promised or not words:
        raise _WrongError(rows[-1][0], "words missing", f"{promised} are promised, {words} there")
    return found


def _is_empty_node(number: str) -> bool:
    before, dot, after = number.partition(".")
    return bool(dot) and before.isdecimal() and after.isdecimal()


def _heads(words: Sequence[Row]) -> list[int]:
    """The head of each word, counted from 0; the root's is its own."""
    heads = []
    for word, (place, row) in enumerate(words):
        if not row[HEAD].isdecimal():
            raise _WrongError(place, "missing head", f"the head of {row[FORM]!r} is {row[HEAD]!r}")
        head = int(row[HEAD])
        if head > len(words):
            found = f"the head of {row[FORM]!r} is {head}, and there are {len(words)} words"
            raise _WrongError(place, "missing head", found)
        heads.append(head - 1 if head else word)
    for (place, row), depth in zip(words, depths(heads), strict=True):
        if depth < 0 or row[HEAD] == row[ID]:
            found = f"the heads above {row[FORM]!r} go round and never reach a root"
            raise _WrongError(place, "cycle", found)
    roots = [place for place, row in words if int(row[HEAD]) == 0]
    if len(roots) > 1:
        raise _WrongError(roots[1], "several roots", f"there are {len(roots)}, and a tree has one")
    return heads


def _text(tokens: Sequence[_Token]) -> str:
    return "".join(token.form + " " * token.spaced for token in tokens).rstrip(" ")


def _spans(tokens: Sequence[_Token], text: str) -> list[tuple[int, int]]:
    """The characters of each token, which must make up the text together."""
    found, at, spaced = [], 0, False
    for token in tokens:
        begin = at
        while spaced and text[begin : begin + 1].isspace():
            begin += 1
        if (spaced and begin == at) or not text.startswith(token.form, begin):
            goes_on = text[at : at + SHOWN]
            raise _WrongError(
                token.place, "not in the text", f"{token.form!r}, where the text has {goes_on!r}"
            )
        at, spaced = begin + len(token.form), token.spaced
        found.append((begin, at))
    if text[at:].strip():
        rest = f"after the last word the text goes on with {text[at : at + SHOWN]!r}"
        raise _WrongError(tokens[-1].place, "not in the text", rest)
    return found


def _features(row: Sequence[str]) -> dict[str, str]:
    pairs = (each.partition("=") for each in row[FEATURES].split("|"))
    return {name: value for name, equals, value in pairs if equals}
