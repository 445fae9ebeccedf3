"""Text as the model takes it, line by line from a file: what heads are judged on.

A translator reads `source<TAB>translation` (or two files), a classifier `text<TAB>label`, an
encoder a text a line. What fills blanks reads a text a line as well, with words hidden or cut out
of it. A language model reads running text in windows.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.data.batches.base import IGNORE_INDEX, pad
from regard.data.batches.corrupted import MaskedBatch, corrupt_spans, mask
from regard.data.batches.labeled import LabeledBatch, label_tensor
from regard.data.batches.masking import Masking
from regard.data.batches.pairs import PairBatch
from regard.data.batches.spans import SpanCorruptor
from regard.data.batches.text import TextBatch
from regard.data.records import Location, require_records
from regard.data.sources.files import Spec as TwoFiles
from regard.data.sources.text import Spec as RunningText
from regard.data.sources.tsv import read_columns
from regard.errors import ConfigError, DataError
from regard.predictors.classifier import Classifier
from regard.predictors.classifier_evaluation import labeled_lines, labeled_text
from regard.predictors.embedder import Embedder
from regard.predictors.generator import TextGenerator
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.span_filler import SpanFiller
from regard.predictors.summarizer import Summarizer
from regard.predictors.translator import Translator

WINDOW = 128  # tokens of running text at a time, where the model takes so many:
LINES_OF_A_WINDOW = 8  # as much to read as so many sentences
ROWS = 32  # of a batch
LINES = 1000

Ids = list[int]
Array = npt.NDArray[np.int64]
AnyBatch = PairBatch | TextBatch | LabeledBatch | MaskedBatch


@dataclass(frozen=True)
class Row:
    """One example: ids, its labels if it has any, and the texts it was made of."""

    ids: tuple[Ids, ...]
    labels: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Examples:
    """Rows, shortest first, and how to put them into a batch."""

    rows: tuple[Row, ...]
    make: Callable[[Sequence[Row]], AnyBatch]
    unit: str  # what a row is, in the plural
    to: str | None = None  # the language to produce, where that must be said

    def batches(self, rows: int = ROWS) -> Iterator[AnyBatch]:
        for start in range(0, len(self.rows), rows):
            yield self.make(self.rows[start : start + rows])

    def few(self, most: int) -> "Examples":
        """At most so many rows, of all lengths."""
        step = max(1, -(-len(self.rows) // most))
        return replace(self, rows=self.rows[::step])

    def halves(self, most: int) -> tuple["Examples", "Examples"]:
        """At most so many rows to choose by, and the others to judge by; of one row, both."""
        if len(self.rows) < 2:
            return self, self
        step = max(2, -(-len(self.rows) // most))
        others = tuple(row for place, row in enumerate(self.rows) if place % step)
        return replace(self, rows=self.rows[::step]), replace(self, rows=others)


def read_examples(
    loaded: Any,
    path: Path,
    target: Path | None = None,
    to: str | None = None,
    lines: int = LINES,
) -> Examples:
    """The first lines of a file for what `regard.load` gave."""
    if (target is not None or to is not None) and not isinstance(loaded, Translator):
        raise ConfigError("--target and --to are for translators, and this model is none.")
    if getattr(loaded.model, "single_sequence", False) or isinstance(loaded, Summarizer):
        raise ConfigError(
            f"the heads of a {type(loaded).__name__.lower()} of this kind cannot be compared yet; "
            f"`regard look` shows them for a text."
        )
    if isinstance(loaded, Classifier) and loaded.tree_source is not None:
        raise ConfigError(
            "the heads of a model that reads trees cannot be compared yet; `regard look` shows "
            "them, sentence by sentence."
        )
    make: Callable[[Sequence[Row]], AnyBatch]
    if isinstance(loaded, Translator):
        rows, make, unit = _pairs(loaded, path, target, to), partial(_pair_batch, loaded), "pairs"
    elif isinstance(loaded, TextGenerator):
        rows, make, unit = _windows(loaded, path, lines), partial(_window_batch, loaded), "windows"
    elif isinstance(loaded, Classifier):
        rows, make, unit = _labelled(loaded, path), partial(_labelled_batch, loaded), "texts"
    elif isinstance(loaded, Embedder):
        rows, make, unit = _texts(loaded, path), partial(_text_batch, loaded), "texts"
    elif isinstance(loaded, MaskFiller):
        rows, make, unit = _texts(loaded, path), _masked_batch(loaded), "texts"
    elif isinstance(loaded, SpanFiller):
        rows, make, unit = _texts(loaded, path), _torn_batch(loaded), "texts"
    else:
        raise ConfigError(f"a {type(loaded).__name__} has no heads that could be looked at.")
    found = sorted(islice(rows, lines), key=lambda row: [len(each) for each in row.ids])
    if not found:
        raise DataError(f"{path}: there are no lines in it.")
    return Examples(tuple(found), make, unit, to)


def _pairs(
    translator: Translator, path: Path, target: Path | None, to: str | None
) -> Iterator[Row]:
    if target is None:
        lines = read_columns(path, (0, 1))
    else:
        lines = TwoFiles(source=path, target=target, languages=("source", "target")).records()
    start, end = translator.tokenizer.start, translator.tokenizer.end
    for record in require_records(lines):
        source, said = record.texts
        asked = translator.source_ids(
            source, to or translator.target_language(source), str(record.location)
        )
        ids = translator.target_ids(said, str(record.location))
        yield Row((asked, [start, *ids, end]), texts=(source, said))


def _pair_batch(translator: Translator, rows: Sequence[Row]) -> PairBatch:
    filler = translator.tokenizer.pad
    sources, targets = ([row.ids[side] for row in rows] for side in (0, 1))
    return PairBatch(*pad(sources, filler), *pad(targets, filler))


def _windows(writer: TextGenerator, path: Path, lines: int) -> Iterator[Row]:
    """Running text cut into windows; each begins as this model expects a text to."""
    most = -(-lines // LINES_OF_A_WINDOW)
    begin = writer.bos
    room = min(WINDOW, writer.max_length) - len(begin)
    ids: Ids = []
    for record in require_records(RunningText(path=path).records()):
        ids += writer.tokenizer.encode(record.texts[0])
        if len(ids) > most * room:
            break
    for at in range(0, min(len(ids), most * room), room):
        row = [*begin, *ids[at : at + room + (not begin)]]
        if len(row) > 1:  # one alone predicts nothing
            yield Row((row,))


def _window_batch(writer: TextGenerator, rows: Sequence[Row]) -> TextBatch:
    return TextBatch(*pad([row.ids[0] for row in rows], writer.tokenizer.pad))


def _labelled(labeller: Classifier, path: Path) -> Iterator[Row]:
    for record in labeled_lines(labeller, path):
        where = str(record.location)
        ids = labeller.encode(labeled_text(record), where)
        yield Row((ids,), tuple(labeller.label_ids(record.labels or (), where)), record.texts)


def _labelled_batch(labeller: Classifier, rows: Sequence[Row]) -> LabeledBatch:
    ids, token_mask = pad([row.ids[0] for row in rows], labeller.tokenizer.pad)
    classes = len(labeller.labels) if labeller.multi_label else None
    return LabeledBatch(ids, token_mask, label_tensor([row.labels for row in rows], classes))


def _texts(reader: Embedder | MaskFiller | SpanFiller, path: Path) -> Iterator[Row]:
    for record in require_records(RunningText(path=path, documents="line").records()):
        yield _whole(reader, record.texts[0], record.location)


def _whole(loaded: Embedder | MaskFiller | SpanFiller, text: str, place: Location) -> Row:
    tokenizer = loaded.tokenizer
    ids = [tokenizer.start, *tokenizer.encode(text), tokenizer.end]
    if len(ids) > loaded.max_length:
        raise DataError(
            f"{place}: the text has {len(ids):,} tokens and this model takes {loaded.max_length:,}:"
            f" shorten it."
        )
    return Row((ids,), texts=(text,))


def _text_batch(loaded: Embedder, rows: Sequence[Row]) -> LabeledBatch:
    ids, token_mask = pad([row.ids[0] for row in rows], loaded.tokenizer.pad)
    return LabeledBatch(ids, token_mask, torch.full((len(rows),), IGNORE_INDEX))


def _masked_batch(filler: MaskFiller) -> Callable[[Sequence[Row]], MaskedBatch]:
    masking = Masking(filler.tokenizer)

    def make(rows: Sequence[Row]) -> MaskedBatch:
        texts, numbers = _texts_and_numbers(rows)
        return mask(texts, filler.tokenizer, masking, (0,), numbers)

    return make


def _torn_batch(filler: SpanFiller) -> Callable[[Sequence[Row]], PairBatch]:
    spans = SpanCorruptor(filler.tokenizer, sentinels=len(filler.sentinels))

    def make(rows: Sequence[Row]) -> PairBatch:
        texts, numbers = _texts_and_numbers(rows)
        return corrupt_spans(texts, filler.tokenizer, spans, filler.max_length, (0,), numbers)

    return make


def _texts_and_numbers(rows: Sequence[Row]) -> tuple[list[Array], Array]:
    """A text's number is its own: the same words are hidden in it in whichever batch it is."""
    texts = [np.array(row.ids[0][1:-1], np.int64) for row in rows]
    return texts, np.array([zlib.crc32(text.tobytes()) for text in texts])
