"""Subject-verb agreement: predict the number of a verb that is blanked out of a treebank sentence.

    The keys to the cabinet _ on the table.        Plur

A verb is used if it is finite and third person, has a number and one nominal subject, and is a
token of its own. A sentence gives one record for each such verb, and none if it has none. The tree
is that of the sentence, with the blank in the position of the verb.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from regard.data.records import Line, Record, Rejected
from regard.data.sources.base import LabeledSpec, TextFileSpec
from regard.data.sources.conllu import Sentence, read_conllu
from regard.data.sources.trees import Tree

VERB_FEATURES = {"VerbForm": "Fin", "Person": "3"}
NUMBERS = ("Sing", "Plur")
AUXILIARIES = ("aux", "cop")  # relations whose subject depends on their head
NOUNS = ("NOUN", "PROPN", "PRON")


class Spec(TextFileSpec, LabeledSpec):
    """{kind: agreement, path: en-ewt/train.conllu.gz, attracted: true}"""

    trees: ClassVar[bool] = True

    path: Path = Field(..., description="a CoNLL-U file; gzip or plain")
    attracted: bool = Field(
        False, description="only verbs with a noun of the other number between subject and verb"
    )
    blank: str = Field("_", min_length=1, description="text that replaces the verb")

    def records(self) -> Iterator[Line]:
        for sentence in read_conllu(self.path, self.encoding):
            if isinstance(sentence, Rejected):
                yield sentence
                continue
            for verb, subject in agreeing_verbs(sentence):
                if not self.attracted or attractors(sentence, verb, subject):
                    yield self._record(sentence, verb)

    def files(self) -> list[Path]:
        return [self.path]

    def _record(self, sentence: Sentence, verb: int) -> Record:
        word, (begin, end) = sentence.words[verb], sentence.tree.spans[verb]
        text = sentence.text[:begin] + self.blank + sentence.text[end:]
        shift = begin + len(self.blank) - end
        spans = [(a + shift, b + shift) if a >= end else (a, b) for a, b in sentence.tree.spans]
        spans[verb] = (begin, begin + len(self.blank))
        tree = Tree(tuple(spans), sentence.tree.heads)
        return Record(word.location, (text,), labels=(word.features["Number"],), tree=tree)


def agreeing_verbs(sentence: Sentence) -> Iterator[tuple[int, int]]:
    """Yield the verbs whose number can be predicted, each with its subject."""
    subjects_of: dict[int, list[int]] = {}
    for word_number, head in enumerate(sentence.tree.heads):
        if sentence.words[word_number].relation.partition(":")[0] == "nsubj":
            subjects_of.setdefault(head, []).append(word_number)
    for verb, word in enumerate(sentence.words):
        features = word.features
        matches = all(features.get(name) == value for name, value in VERB_FEATURES.items())
        if not (matches and word.is_token and features.get("Number") in NUMBERS):
            continue
        is_auxiliary = word.relation.partition(":")[0] in AUXILIARIES
        clause = sentence.tree.heads[verb] if is_auxiliary else verb
        subjects = subjects_of.get(clause, [])
        if len(subjects) == 1 and subjects[0] != verb:
            yield verb, subjects[0]


def attractors(sentence: Sentence, verb: int, subject: int) -> int:
    """Count the nouns between a verb and its subject that have the other number."""
    first, last = sorted((verb, subject))
    own = sentence.words[verb].features["Number"]
    return sum(
        word.tag in NOUNS and word.features.get("Number", own) not in (own, "Ptan", "Coll")
        for word in sentence.words[first + 1 : last]
    )
