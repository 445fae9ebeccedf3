"""Examples from a file, on which heads are evaluated.

A translator reads pairs as in training (or two files), a classifier texts with labels as in
training, an encoder one text a line. Masked language models and span corruption read one text a
line too, with tokens masked or spans removed. A language model reads running text in windows.
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
from regard.data.sources.text import Spec as RunningText
from regard.errors import ConfigError, DataError
from regard.predictors.classifier import Classifier
from regard.predictors.classifier_evaluation import labeled_lines, labeled_text
from regard.predictors.embedder import Embedder
from regard.predictors.generator import TextGenerator
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.reading import pair_lines, repaired
from regard.predictors.span_filler import SpanFiller
from regard.predictors.summarizer import Summarizer
from regard.predictors.translator import Translator

WINDOW = 128  # tokens of running text, if the model has room for them
LINES_OF_A_WINDOW = 8  # a window counts as so many lines
ROWS = 32  # in a batch
LINES = 1000

Ids = list[int]
Array = npt.NDArray[np.int64]
AnyBatch = PairBatch | TextBatch | LabeledBatch | MaskedBatch


@dataclass(frozen=True)
class Row:
    """One example: token ids, labels if any, and its texts."""

    ids: tuple[Ids, ...]
    labels: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Examples:
    """Rows, shortest first, and a function that makes a batch of them."""

    rows: tuple[Row, ...]
    make: Callable[[Sequence[Row]], AnyBatch]
    unit: str  # name of the rows, plural
    to: str | None = None  # target language

    def batches(self, rows: int = ROWS) -> Iterator[AnyBatch]:
        """Yield batches of so many rows."""
        for start in range(0, len(self.rows), rows):
            yield self.make(self.rows[start : start + rows])

    def few(self, most: int) -> "Examples":
        """Return at most so many rows, of all lengths."""
        step = max(1, -(-len(self.rows) // most))
        return replace(self, rows=self.rows[::step])

    def halves(self, most: int) -> tuple["Examples", "Examples"]:
        """Split into at most so many rows and the others; one row is in both."""
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
    changes: Sequence[str] = (),
) -> Examples:
    """Read the first lines of a file as examples for a loaded predictor.

    Args:
        loaded: a predictor as returned by `regard.load`.
        path: the file.
        target: the file of translations, for two files.
        to: the target language.
        lines: number of lines to read.
        changes: overrides of how the file is read, each key=value (default: as in training).

    Raises:
        ConfigError: where options or heads do not fit the predictor.
        DataError: where a line is invalid, or there is none.
    """
    if (target is not None or to is not None) and not isinstance(loaded, Translator):
        raise ConfigError("--target and --to need a translator; this model is not one.")
    if getattr(loaded.model, "single_sequence", False) or isinstance(loaded, Summarizer):
        raise ConfigError(
            f"the heads of a {type(loaded).__name__.lower()} of this kind cannot be compared yet; "
            f"`regard look` shows them for a text."
        )
    if isinstance(loaded, Classifier) and loaded.tree_source is not None:
        raise ConfigError(
            "the heads of a model with tree positions cannot be compared yet; `regard look` shows "
            "them for a sentence."
        )
    if changes and not isinstance(loaded, Translator | Classifier):
        raise ConfigError("--source needs a translator or a classifier; this model is neither.")
    make: Callable[[Sequence[Row]], AnyBatch]
    if isinstance(loaded, Translator):
        rows = _pairs(loaded, path, target, to, changes)
        make, unit = partial(_pair_batch, loaded), "pairs"
    elif isinstance(loaded, TextGenerator):
        rows, make, unit = _windows(loaded, path, lines), partial(_window_batch, loaded), "windows"
    elif isinstance(loaded, Classifier):
        rows, make, unit = _labeled(loaded, path, changes), partial(_labeled_batch, loaded), "texts"
    elif isinstance(loaded, Embedder):
        rows, make, unit = _texts(loaded, path), partial(_text_batch, loaded), "texts"
    elif isinstance(loaded, MaskFiller):
        rows, make, unit = _texts(loaded, path), _masked_batch(loaded), "texts"
    elif isinstance(loaded, SpanFiller):
        rows, make, unit = _texts(loaded, path), _corrupted_batch(loaded), "texts"
    else:
        raise ConfigError(f"a {type(loaded).__name__} has no heads to compare.")
    selected = sorted(islice(rows, lines), key=lambda row: [len(side) for side in row.ids])
    if not selected:
        raise DataError(f"{path}: the file has no lines.")
    return Examples(tuple(selected), make, unit, to)


def _pairs(
    translator: Translator,
    path: Path,
    target: Path | None,
    to: str | None,
    changes: Sequence[str],
) -> Iterator[Row]:
    start, end = translator.tokenizer.start, translator.tokenizer.end
    to = to or translator.default_target
    for record in pair_lines(translator, path, target, changes=changes, to=to):
        source, translation = record.texts
        source_ids = translator.source_ids(
            source, to or translator.target_language(source), str(record.location)
        )
        ids = translator.target_ids(translation, str(record.location))
        yield Row((source_ids, [start, *ids, end]), texts=(source, translation))


def _pair_batch(translator: Translator, rows: Sequence[Row]) -> PairBatch:
    filler = translator.tokenizer.pad
    sources, targets = ([row.ids[side] for row in rows] for side in (0, 1))
    return PairBatch(*pad(sources, filler), *pad(targets, filler))


def _windows(writer: TextGenerator, path: Path, lines: int) -> Iterator[Row]:
    """Split running text into windows, each with the model's start tokens."""
    most = -(-lines // LINES_OF_A_WINDOW)
    begin = writer.bos
    room = min(WINDOW, writer.max_length) - len(begin)
    ids: Ids = []
    for record in require_records(RunningText(path=path, encoding=_encoding(writer)).records()):
        ids += writer.tokenizer.encode(repaired(writer, record).texts[0])
        if len(ids) > most * room:
            break
    for at in range(0, min(len(ids), most * room), room):
        row = [*begin, *ids[at : at + room + (not begin)]]
        if len(row) > 1:  # a single token has no prediction
            yield Row((row,))


def _encoding(loaded: Any) -> str | None:
    """Return the encoding of the run's training data; None is UTF-8."""
    encoding: str | None = (loaded.file_format or {}).get("encoding")
    return encoding


def _window_batch(writer: TextGenerator, rows: Sequence[Row]) -> TextBatch:
    return TextBatch(*pad([row.ids[0] for row in rows], writer.tokenizer.pad))


def _labeled(classifier: Classifier, path: Path, changes: Sequence[str]) -> Iterator[Row]:
    for record in labeled_lines(classifier, path, changes):
        where = str(record.location)
        ids = classifier.encode(labeled_text(record), where)
        yield Row((ids,), tuple(classifier.label_ids(record.labels or (), where)), record.texts)


def _labeled_batch(classifier: Classifier, rows: Sequence[Row]) -> LabeledBatch:
    ids, token_mask = pad([row.ids[0] for row in rows], classifier.tokenizer.pad)
    classes = len(classifier.labels) if classifier.multi_label else None
    return LabeledBatch(ids, token_mask, label_tensor([row.labels for row in rows], classes))


def _texts(reader: Embedder | MaskFiller | SpanFiller, path: Path) -> Iterator[Row]:
    text = RunningText(path=path, documents="line", encoding=_encoding(reader))
    for record in require_records(text.records()):
        yield _whole(reader, repaired(reader, record).texts[0], record.location)


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


def _corrupted_batch(filler: SpanFiller) -> Callable[[Sequence[Row]], PairBatch]:
    spans = SpanCorruptor(filler.tokenizer, sentinels=len(filler.sentinels))

    def make(rows: Sequence[Row]) -> PairBatch:
        texts, numbers = _texts_and_numbers(rows)
        return corrupt_spans(texts, filler.tokenizer, spans, filler.max_length, (0,), numbers)

    return make


def _texts_and_numbers(rows: Sequence[Row]) -> tuple[list[Array], Array]:
    """Number each text by its content, so that the same tokens are masked in any batch."""
    texts = [np.array(row.ids[0][1:-1], np.int64) for row in rows]
    return texts, np.array([zlib.crc32(text.tobytes()) for text in texts])
