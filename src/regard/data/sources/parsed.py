"""Labelled texts as in `labeled`, with the dependency trees that an installed spaCy makes of them.

Trees are a parser's opinion. The same parser reads what the model is asked later, so that plain
text will do then.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from regard.data.records import Line, Record, Rejected
from regard.data.sources.base import LabeledSpec
from regard.data.sources.trees import Tree
from regard.data.sources.tsv import Column, read_columns
from regard.errors import ConfigError

NOT_ASKED = ("ner", "lemmatizer")  # what spaCy could tell besides, and would take its time for


class Spec(LabeledSpec):
    """{kind: parsed, path: reviews.tsv, parser: en_core_web_sm}"""

    trees: ClassVar[bool] = True

    path: Path = Field(..., description="lines with a tab between columns; gzip or plain")
    columns: tuple[Column, Column] = Field(
        (0, 1), description="where the text and the label are, from 0"
    )
    parser: str = Field(
        "en_core_web_sm", min_length=1, description="a model of spaCy's, by package or folder"
    )

    def records(self) -> Iterator[Line]:
        _parser(self.parser)  # what is not installed is said before anything is read
        for line in read_columns(self.path, self.columns):
            if isinstance(line, Rejected):
                yield line
                continue
            text, written = line.texts
            made = self.labelled(line.place, [text], written)
            yield replace(made, tree=self.tree(text)) if isinstance(made, Record) else made

    def tree(self, text: str) -> Tree:
        tokens = _parser(self.parser)(text)
        # A root is its own head with spaCy too; each sentence of a text has one.
        return Tree(
            tuple((token.idx, token.idx + len(token.text)) for token in tokens),
            tuple(token.head.i for token in tokens),
        )

    def files(self) -> list[Path]:
        return [self.path]


@cache
def _parser(name: str) -> Any:
    try:
        import spacy  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ConfigError(
            "the source parsed needs spaCy, which is not installed: `pip install 'regard[spacy]'` "
            "and a model of it, or give the trees as CoNLL-U (kind: conllu)."
        ) from None
    try:
        parser = spacy.load(name, exclude=NOT_ASKED)
    except OSError:
        raise ConfigError(
            f"parser: spaCy has no model {name!r} here; install it, or name another."
        ) from None
    if "parser" not in parser.pipe_names:
        raise ConfigError(f"parser: spaCy's model {name!r} does not make dependency trees.")
    return parser
