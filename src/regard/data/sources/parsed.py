"""Labeled texts as in `labeled`, parsed to dependency trees by an installed spaCy.

Trees of a parser may be wrong. The same parser is used for texts to classify, which can therefore
be plain.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from pydantic import Field

from regard.data.records import Line, Record, Rejected
from regard.data.sources.base import LabeledSpec
from regard.data.sources.characters import quote
from regard.data.sources.columns import Column
from regard.data.sources.table import TableSpec
from regard.data.sources.trees import Tree
from regard.errors import ConfigError, DataError
from regard.missing_modules import install_command

UNUSED_PIPES = ("ner", "lemmatizer")  # slow, and not needed for trees


class Spec(TableSpec, LabeledSpec):
    """{kind: parsed, path: reviews.tsv, parser: en_core_web_sm}"""

    trees: ClassVar[bool] = True

    columns: tuple[Column, Column] = Field(
        (0, 1), description="columns of the text and the label, from 0; with header, names too"
    )
    parser: str = Field(
        "en_core_web_sm", min_length=1, description="a spaCy model: package or folder"
    )

    @property
    def roles(self) -> tuple[str, ...]:
        return ("text", "label")

    @property
    def version(self) -> str:
        with suppress(PackageNotFoundError):
            return f"spacy {version('spacy')}, {self.parser} {version(self.parser)}"
        return ""  # the parser is a folder

    def records(self) -> Iterator[Line]:
        _parser(self.parser)  # fail before reading if it is not installed
        for line in self.read_columns(self.columns):
            if isinstance(line, Rejected):
                yield line
                continue
            text, label = line.texts
            record = self.labeled_record(line.location, [text], label)
            if len(text) > _parser(self.parser).max_length:
                record = Rejected(line.location, "too long", self._too_long(text))
            if isinstance(record, Record):
                record = replace(record, tree=self.parse(text))
            yield record

    def _too_long(self, text: str) -> str:
        limit = _parser(self.parser).max_length
        return f"the text has {len(text):,} characters, and the parser takes {limit:,}"

    def parse(self, text: str) -> Tree:
        if len(text) > _parser(self.parser).max_length:
            raise DataError(f"{quote(text)}: {self._too_long(text)}; split it.")
        tokens = _parser(self.parser)(text)
        # A root is its own head in spaCy too; each sentence of a text has one.
        return Tree(
            tuple((token.idx, token.idx + len(token.text)) for token in tokens),
            tuple(token.head.i for token in tokens),
        )


@cache
def _parser(name: str) -> Any:
    try:
        import spacy  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ConfigError(
            f"the source parsed needs spaCy, which is not installed: run "
            f"`{install_command('spacy')}` and install a model, or give the trees as CoNLL-U "
            f"(kind: conllu)."
        ) from None
    try:
        parser = spacy.load(name, exclude=UNUSED_PIPES)
    except OSError:
        raise ConfigError(
            f"parser: the spaCy model {name!r} is not installed; install it, or name another."
        ) from None
    if "parser" not in parser.pipe_names:
        raise ConfigError(
            f"parser: the spaCy model {name!r} has no dependency parser; name another."
        )
    return parser
