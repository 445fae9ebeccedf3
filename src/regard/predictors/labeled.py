"""What a labeller is worth on labelled texts from a file."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from regard.config import override, plain, validate
from regard.data.batches.labeled import label_tensor
from regard.data.records import Record, Rejected
from regard.data.sources.base import SourceSpec
from regard.data.sources.trees import Parsed
from regard.errors import ConfigError, DataError
from regard.evaluation.classification import Report, Tally
from regard.predictors.classifier import Classifier, Text

CHUNK = 512  # texts judged at a time


def labeled_lines(
    labeller: Classifier, path: Path, changes: Sequence[str] = ()
) -> Iterator[Record]:
    """The lines of a table: a text, or both, and the labels, written as in training.

    A model that reads trees is asked as it was in training. `changes`, each key=value, are made to
    that source; a kind begins a new one. A line that cannot be used is refused by name.
    """
    columns = list(range(labeller.sides + 1))
    table = {"kind": "labeled", "columns": columns, "labels": plain(labeller.written)}
    anew = any(change.startswith("kind=") for change in changes)
    asked = override({} if anew else labeller.trees or table, changes)
    if "path" in asked:
        raise ConfigError("source: path is the file that is given; leave it out.")
    source = validate(SourceSpec, {**asked, "path": path}, "source")
    for line in source.records():
        if isinstance(line, Rejected):
            raise DataError(f"{line.place}: {line.why} ({line.found}); mend the line.")
        yield line


def labeled_text(record: Record) -> Text:
    """What a labeller is asked."""
    if record.tree is not None:
        return Parsed(record.texts[0], record.tree)
    first, *others = record.texts
    return (first, others[0]) if others else first


def evaluate_classifier(labeller: Classifier, records: Iterable[Record]) -> Report:
    """What a labeller is worth on these; a label that it was never taught is refused by name."""
    tally, waiting = Tally(labeller.labels, labeller.several), iter(records)
    classes = len(labeller.labels) if labeller.several else None
    while chunk := list(islice(waiting, CHUNK)):
        places = [str(each.place) for each in chunk]
        actual = [
            labeller.numbers(each.labels or (), place)
            for each, place in zip(chunk, places, strict=True)
        ]
        judged = labeller.judge(list(map(labeled_text, chunk)), places)
        tally.add(judged, label_tensor(actual, classes))
    if not tally.texts:
        raise DataError("there is no labelled text to score on.")
    return tally.report()
