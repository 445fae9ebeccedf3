"""Batches: examples as tensors, padded on the right to the longest of their batch.

Masks of padding are True where a token is real. Several processes share a batch by rows; all have
to take the same steps, so where there are fewer rows than processes the last ones get a row in
which nothing is to be predicted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, repeat
from typing import Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.data.corpus import Direction
from regard.data.corruption.masking import Masking
from regard.data.corruption.spans import Spans
from regard.data.passages import Passages
from regard.data.sampling import (
    Cost,
    Dated,
    DatedPlan,
    Plan,
    Position,
    RowPlan,
    Rows,
    WindowPlan,
    Windows,
    packed,
    walk,
)
from regard.data.store import Ids, Section, Store
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError

UNCOUNTED = -100  # a label that no loss counts


@dataclass(frozen=True)
class Tensors:
    """What every batch can do."""

    @property
    def tokens(self) -> int:
        """How much is to be predicted: what a loss is divided by."""
        raise NotImplementedError

    @property
    def load(self) -> int:
        """How many tokens go through the model: what keeps those busy who share a batch."""
        return self.tokens

    def to(self, device: torch.device) -> Self:
        return type(self)(*(getattr(self, field.name).to(device) for field in fields(self)))

    def share(self, rank: int, size: int) -> Self:
        """The rows of one of `size` processes."""
        raise NotImplementedError


@dataclass(frozen=True)
class Example:
    """One pair as ids: the source with its tag and end, the target with start and end."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Batch(Tensors):
    """B pairs: source (B, S), target (B, T)."""

    source: Tensor
    source_padding: Tensor
    target: Tensor
    target_padding: Tensor

    @property
    def tokens(self) -> int:
        """Of the target, all real ones but the first of each row."""
        return int(self.target_padding[:, 1:].sum())

    def share(self, rank: int, size: int) -> "Batch":
        source, source_padding, target, target_padding = (
            _every(tensor, rank, size)
            for tensor in (self.source, self.source_padding, self.target, self.target_padding)
        )
        return Batch(source, source_padding, target, target_padding & (rank < len(self.source)))


@dataclass(frozen=True)
class TextBatch(Tensors):
    """B windows of running text, ids (B, T + 1): each token but the first is to be predicted."""

    ids: Tensor
    padding: Tensor

    @property
    def tokens(self) -> int:
        return int(self.padding[:, 1:].sum())

    def share(self, rank: int, size: int) -> "TextBatch":
        padding = _every(self.padding, rank, size) & (rank < len(self.ids))
        return TextBatch(_every(self.ids, rank, size), padding)


@dataclass(frozen=True)
class ApartBatch(Tensors):
    """The same where no word looks out of its document. The end of one begins the next."""

    ids: Tensor
    padding: Tensor
    end: Tensor  # (B,), the id of it

    @property
    def documents(self) -> Tensor:
        """The document that each token is read in, by its number in the row: (B, T + 1)."""
        return (self.ids == self.end[:, None]).cumsum(1)

    @property
    def tokens(self) -> int:
        return int(self.padding[:, 1:].sum())

    def share(self, rank: int, size: int) -> "ApartBatch":
        padding = _every(self.padding, rank, size) & (rank < len(self.ids))
        return ApartBatch(_every(self.ids, rank, size), padding, _every(self.end, rank, size))


@dataclass(frozen=True)
class LabelledBatch(Tensors):
    """B texts, or pairs in one row, ids (B, T) between start and end, and their labels.

    Labels are numbers (B); where a text may have several, 1 for those it has (B, classes).
    """

    ids: Tensor
    padding: Tensor
    labels: Tensor

    @property
    def tokens(self) -> int:
        """The labels to be told: one a text, or yes or no for each class."""
        return int((self.labels != UNCOUNTED).sum())

    @property
    def load(self) -> int:
        return int(self.padding.sum())

    def share(self, rank: int, size: int) -> "LabelledBatch":
        ids, padding, labels = (
            _every(tensor, rank, size) for tensor in (self.ids, self.padding, self.labels)
        )
        counted = rank < len(self.ids)
        return LabelledBatch(ids, padding, labels if counted else labels.fill_(UNCOUNTED))


@dataclass(frozen=True)
class MaskedBatch(Tensors):
    """B texts with masks in them, ids (B, T), and what is to be guessed there: wanted (B, T)."""

    ids: Tensor
    wanted: Tensor
    padding: Tensor

    @property
    def chosen(self) -> Tensor:
        """(B, T), True where something is to be guessed."""
        return (self.wanted != UNCOUNTED) & self.padding

    @property
    def tokens(self) -> int:
        return int(self.chosen.sum())

    @property
    def load(self) -> int:
        return int(self.padding.sum())

    def share(self, rank: int, size: int) -> "MaskedBatch":
        ids, wanted, padding = (
            _every(tensor, rank, size) for tensor in (self.ids, self.wanted, self.padding)
        )
        counted = rank < len(self.ids)
        return MaskedBatch(ids, wanted if counted else wanted.fill_(UNCOUNTED), padding)


def _every(tensor: Tensor, rank: int, size: int) -> Tensor:
    """Every size-th row from `rank` on; the first where there is none."""
    return tensor[rank::size] if rank < len(tensor) else tensor[:1].clone()


def pad(rows: Sequence[Sequence[int] | Ids], filler: int) -> tuple[Tensor, Tensor]:
    """Rows as one tensor (B, T), and where it is real."""
    return _lay(rows, np.array([len(row) for row in rows]), filler)


def _pad_between(
    before: Ids, rows: Sequence[Ids], after: Ids, filler: int
) -> tuple[Tensor, Tensor]:
    """The same, with the ids in a row of `before` (B, N) ahead of each row and `after` behind."""
    pieces = chain.from_iterable(zip(before, rows, repeat(after), strict=False))
    lengths = np.array([len(row) for row in rows]) + before.shape[1] + len(after)
    return _lay(list(pieces), lengths, filler)


def _lay(pieces: Sequence[Sequence[int] | Ids], lengths: Ids, filler: int) -> tuple[Tensor, Tensor]:
    """Pieces one after the other in rows of these lengths."""
    real = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(real.shape, filler)
    ids[real] = np.concatenate(pieces)
    return torch.from_numpy(ids), torch.from_numpy(real)


def collate(examples: Sequence[Example], filler: int) -> Batch:
    source, source_padding = pad([example.source for example in examples], filler)
    target, target_padding = pad([example.target for example in examples], filler)
    return Batch(source, source_padding, target, target_padding)


P = TypeVar("P")
B = TypeVar("B", bound=Tensors)


class Batches(Generic[P, B]):
    """Batches without end: a plan says of what, and `make` puts each together."""

    def __init__(self, plan: Plan[P], make: Callable[[P], B]) -> None:
        self._plan, self._make = plan, make

    def since(self, position: Position) -> Iterator[tuple[B, Position]]:
        """Batches from a position on, each with the position after it."""
        for picked, after in walk(self._plan, position):
            yield self._make(picked), after

    def epoch(self, number: int = 0) -> Iterator[B]:
        """The batches of one epoch."""
        for batch, after in self.since(Position(number)):
            yield batch
            if after.epoch > number:
                return


def pair_batches(
    store: Store,
    tokenizer: Tokenizer,
    directions: Sequence[Direction],
    budget: int,
    seed: int,
    cost: Cost = packed,
) -> Batches[Rows, Batch]:
    """Pairs in all directions. Only a model with several languages to produce is told which."""
    tagged = len({way.target for way in directions}) > 1
    ways = [_ways(section, directions) for section in store.sections]
    tags = [
        [tokenizer.mark(tongue) if tagged else -1 for tongue in reversed(section.tongues)]
        for section in store.sections
    ]
    plan = RowPlan(store, ways, (1 + tagged, 2), budget, seed, cost)
    tag_of, end = np.array(tags), np.array([tokenizer.end])

    def make(picked: Rows) -> Batch:
        asked = tag_of[picked.sections, picked.sides, None][:, :tagged]
        start = np.full((len(picked.rows), 1), tokenizer.start)
        sources = store.ids(picked.rows, picked.sides)
        targets = store.ids(picked.rows, 1 - picked.sides)
        return Batch(
            *_pad_between(asked, sources, end, tokenizer.pad),
            *_pad_between(start, targets, end, tokenizer.pad),
        )

    return Batches(plan, make)


def _ways(section: Section, directions: Sequence[Direction]) -> list[int]:
    """The sides of a section that are translated from."""
    first, second = section.tongues
    offered = (Direction(first, second), Direction(second, first))
    return [side for side, way in enumerate(offered) if way in directions]


def labelled_batches(
    store: Store,
    tokenizer: Tokenizer,
    budget: int,
    seed: int,
    classes: int | None = None,
    cost: Cost = packed,
) -> Batches[Rows, LabelledBatch]:
    """Texts with a label each, or with some of so many `classes`; two texts are read as one row."""
    extra = (2, 1)[: store.sides]  # <s> first </s> second </s>
    plan = RowPlan(store, [(0,)] * len(store.sections), extra, budget, seed, cost, joined=True)
    end = np.array([tokenizer.end])

    def make(picked: Rows) -> LabelledBatch:
        start = np.full((len(picked.rows), 1), tokenizer.start)
        texts = store.ids(picked.rows, picked.sides)
        if store.sides == 2:
            others = store.ids(picked.rows, picked.sides + 1)
            texts = [np.concatenate((a, end, b)) for a, b in zip(texts, others, strict=True)]
        ids, padding = _pad_between(start, texts, end, tokenizer.pad)
        return LabelledBatch(ids, padding, label_tensor(store.labels(picked.rows), classes))

    return Batches(plan, make)


def label_tensor(rows: Sequence[Sequence[int] | Ids], classes: int | None) -> Tensor:
    """The labels of texts that have one each (B), or some of so many `classes` (B, classes)."""
    if classes is None:
        return torch.tensor([int(row[0]) for row in rows])
    found = torch.zeros(len(rows), classes, dtype=torch.long)
    for at, row in enumerate(rows):
        found[at, torch.tensor([int(each) for each in row], dtype=torch.long)] = 1
    return found


def masked_batches(
    passages: Passages, tokenizer: Tokenizer, masking: Masking, budget: int, seed: int
) -> Batches[Dated[Rows], MaskedBatch]:
    """Passages between start and end, masked anew in each epoch."""
    plan = RowPlan(passages, [(0,)] * len(passages.sections), (2,), budget, seed)

    def make(dated: Dated[Rows]) -> MaskedBatch:
        rows = dated.picked.rows
        batch = mask(passages.ids(rows), tokenizer, masking, (seed, dated.epoch), rows)
        if not batch.tokens:
            raise DataError(
                "there is a batch in which no piece can be hidden, for the tokenizer knows none of "
                "its text: is it the right one, and trained on such text?"
            )
        return batch

    return Batches(DatedPlan(plan), make)


def mask(
    texts: Sequence[Ids], tokenizer: Tokenizer, masking: Masking, key: tuple[int, ...], numbers: Ids
) -> MaskedBatch:
    """Texts between start and end, masked as the key and their numbers will have it."""
    start, end = np.full((len(texts), 1), tokenizer.start), np.array([tokenizer.end])
    whole, padding = _pad_between(start, texts, end, tokenizer.pad)
    hidden, chosen = masking(whole.numpy(), padding.numpy(), key, numbers)
    wanted = whole.where(torch.from_numpy(chosen), UNCOUNTED)
    return MaskedBatch(torch.from_numpy(hidden), wanted, padding)


def span_batches(
    passages: Passages, tokenizer: Tokenizer, spans: Spans, longest: int, budget: int, seed: int
) -> Batches[Dated[Rows], Batch]:
    """Passages with spans cut out, others in each epoch; neither side is over the `longest`."""
    plan = RowPlan(passages, [(0,)] * len(passages.sections), (4,), budget, seed)

    def make(dated: Dated[Rows]) -> Batch:
        rows = dated.picked.rows
        return tear(passages.ids(rows), tokenizer, spans, longest, (seed, dated.epoch), rows)

    return Batches(DatedPlan(plan), make)


def tear(
    texts: Sequence[Ids],
    tokenizer: Tokenizer,
    spans: Spans,
    longest: int,
    key: tuple[int, ...],
    numbers: Ids,
) -> Batch:
    """Texts with spans cut out, as the key and their numbers will have it."""
    each = zip(texts, numbers.tolist(), strict=True)
    torn = [spans(ids, longest, key, number) for ids, number in each]
    return Batch(
        *pad([text.source for text in torn], tokenizer.pad),
        *pad([text.target for text in torn], tokenizer.pad),
    )


Running = TextBatch | ApartBatch


def text_batches(
    store: Store, context: int, budget: int, seed: int, end: int | None = None
) -> Batches[Windows, Running]:
    """Windows of `context` tokens and the one that follows, `budget` tokens in all.

    Documents are kept apart where the id is given that they end with.
    """
    firsts = np.cumsum([0, *(section.tokens[0] for section in store.sections)]).tolist()

    def make(picked: Windows) -> Running:
        places = zip(picked.sections.tolist(), picked.starts.tolist(), strict=True)
        rows = [
            _around(store, firsts[at], firsts[at + 1], firsts[at] + start, context + 1)
            for at, start in places
        ]
        ids = torch.from_numpy(np.stack(rows).astype(np.int64))
        return _running(ids, torch.ones_like(ids, dtype=torch.bool), end)

    return Batches(WindowPlan(store, context, budget, seed), make)


def _around(store: Store, first: int, end: int, start: int, length: int) -> Ids:
    """Tokens of a section from `start` on; after its end comes its beginning."""
    here = store.stream(start, min(length, end - start))
    if len(here) == length:
        return here
    return np.concatenate((here, _around(store, first, end, first, length - len(here))))


def _running(ids: Tensor, padding: Tensor, end: int | None) -> Running:
    if end is None:
        return TextBatch(ids, padding)
    return ApartBatch(ids, padding, torch.full((len(ids),), end))


def text_in_order(
    store: Store, context: int, budget: int, filler: int, end: int | None = None
) -> Iterator[Running]:
    """Running text to score on: every token but the very first is predicted, and just once."""
    total, rows = store.tokens[0], max(1, budget // context)
    starts = range(0, total - 1, context)
    for at in range(0, len(starts), rows):
        windows = [
            store.stream(start, min(context + 1, total - start)) for start in starts[at : at + rows]
        ]
        yield _running(*pad(windows, filler), end)
