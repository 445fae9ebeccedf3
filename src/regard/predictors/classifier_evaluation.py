"""Evaluate a classifier on labeled texts from a file."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import plain
from regard.data.records import Record
from regard.data.sources.base import SourceSpec
from regard.data.sources.trees import ParsedText
from regard.errors import DataError
from regard.predictors.classifier import Classifier, Text
from regard.predictors.reading import require_readable, source_like_training

if TYPE_CHECKING:
    from regard.evaluation.classification import ClassificationReport

CHUNK = 512  # texts in memory


def labeled_lines(
    classifier: Classifier, path: Path, changes: Sequence[str] = ()
) -> Iterator[Record]:
    """Yield the texts of a file with their labels, in the format of the training data.

    Args:
        classifier: The file is read as its training data were.
        path: The file.
        changes: Overrides of the source, each key=value; with `kind=…` they are the whole source.

    Raises:
        DataError: A line cannot be read.
        ConfigError: A change is not valid.
    """
    source = labeled_source(classifier, path, changes)
    yield from require_readable(classifier, source.records(), source)


def labeled_source(classifier: Classifier, path: Path, changes: Sequence[str] = ()) -> SourceSpec:
    """Return the source that reads a file of texts and labels as in training, with changes."""
    columns = list(range(classifier.num_texts + 1))
    table = {"kind": "labeled", "columns": columns, "labels": plain(classifier.label_format)}
    return source_like_training(classifier, path, classifier.tree_source or table, changes)


def labeled_text(record: Record) -> Text:
    """Return a record's text as a classifier takes it."""
    if record.tree is not None:
        return ParsedText(record.texts[0], record.tree)
    first, *others = record.texts
    return (first, others[0]) if others else first


def evaluate_classifier(
    classifier: Classifier, records: Iterable[Record]
) -> "ClassificationReport":
    """Return accuracy, F1 and the other metrics of a classifier on labeled records.

    Args:
        classifier: The classifier to evaluate.
        records: Labeled records, such as those of `labeled_lines`.

    Raises:
        DataError: There is no record, or the classifier was not trained with a label.
    """
    from regard.data.batches.labeled import label_tensor
    from regard.evaluation.classification import PredictionCounter

    tally, remaining = PredictionCounter(classifier.labels, classifier.multi_label), iter(records)
    classes = len(classifier.labels) if classifier.multi_label else None
    while chunk := list(islice(remaining, CHUNK)):
        names = [str(record.location) for record in chunk]
        labels = [
            classifier.label_ids(record.labels or (), name)
            for record, name in zip(chunk, names, strict=True)
        ]
        log_probs = classifier.log_probs(list(map(labeled_text, chunk)), names)
        tally.add(log_probs, label_tensor(labels, classes))
    if not tally.texts:
        raise DataError("there is no labeled text to score on.")
    return tally.report()
