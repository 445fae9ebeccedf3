"""Sentences with their dependency trees (`data/conllu.py`), and a label in a comment of each."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from regard.data.records import Line, Record, Rejected
from regard.data.sources._conllu import read_conllu
from regard.data.sources.base import LabeledSpec


class Spec(LabeledSpec):
    """{kind: conllu, path: reviews.conllu, comment: label}"""

    trees: ClassVar[bool] = True

    path: Path = Field(..., description="a CoNLL-U file; gzip or plain")
    comment: str = Field("label", description="where the label is: label for # label = good")

    def records(self) -> Iterator[Line]:
        for sentence in read_conllu(self.path):
            if isinstance(sentence, Rejected):
                yield sentence
            elif self.comment not in sentence.comments:
                found = f"the sentence has no comment # {self.comment} = …"
                yield Rejected(sentence.place, "missing label", found)
            else:
                written = sentence.comments[self.comment]
                line = self.labelled(sentence.place, [sentence.text], written)
                yield replace(line, tree=sentence.tree) if isinstance(line, Record) else line

    def files(self) -> list[Path]:
        return [self.path]
