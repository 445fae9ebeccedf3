"""How well a language model foretells a text of any length: every token but the first, once.

A window of `context` tokens slides over the text by `stride`; of each window only what the one
before did not reach is counted, so that each token is foretold from at least context − stride
tokens before it (from all there are, near the beginning of the text).

    loss                 −Σ log p / tokens                 nats; depends on how text is cut
    perplexity           exp(loss)
    bits per character   −Σ log2 p / characters            does not; nor do these:
    bits per byte        −Σ log2 p / bytes of UTF-8
    word perplexity      exp(−Σ log p / words)             words stand between spaces
    … of words or lines  exp(−Σ log p / (words + lines))   a line's end is a word, as in WikiText

Documents of a text stand one after the other with the end token between them, which is foretold as
well. A model that expects something before every text (`bos`) has each document for itself.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F

from regard.data.batches.base import pad
from regard.data.tokenizers.streaming_encoder import StreamingEncoder
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import ConfigError, DataError
from regard.models.language_model import LanguageModel

AT_ONCE = 8192  # tokens that the model is given together
SLICE = 1 << 22  # logits worked out together

Ids = list[int]


class Foreteller(Protocol):
    """What can be judged: a TextGenerator is one."""

    model: LanguageModel
    tokenizer: Tokenizer
    max_length: int
    bos: list[int]  # token ids before every text


class Piece(NamedTuple):
    """A stretch of running text, in whole lines, and whether its document ends with it."""

    text: str
    ends: bool = True


@dataclass(frozen=True)
class Perplexity:
    context: int
    stride: int
    nats: float  # −Σ log p
    tokens: int  # counted
    right: int  # of them, those that were found likeliest
    windows: int
    documents: int
    characters: int  # of these and the next three: without what the first token holds,
    bytes: int  # where nothing comes before it
    words: int
    lines: int  # that end, and documents that do
    lossless: bool  # whether the tokeniser gives the text back as it was

    @property
    def loss(self) -> float:
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        return _exp(self.loss)

    @property
    def accuracy(self) -> float:
        return self.right / self.tokens

    @property
    def bits_per_character(self) -> float:
        return _share(self.nats / math.log(2), self.characters)

    @property
    def bits_per_byte(self) -> float:
        return _share(self.nats / math.log(2), self.bytes)

    @property
    def word_perplexity(self) -> float:
        return _exp(_share(self.nats, self.words))

    @property
    def word_or_line_perplexity(self) -> float:
        return _exp(_share(self.nats, self.words + self.lines))

    @property
    def counted(self) -> str:
        """What the figures are of."""
        several = f" of {self.documents:,} documents" if self.documents > 1 else ""
        return (
            f"{self.tokens:,} tokens{several} in {self.windows:,} windows, {self.words:,} words, "
            f"{self.lines:,} line ends, {self.characters:,} characters, {self.bytes:,} bytes"
        )

    def to_plain(self) -> dict[str, Any]:
        """All of it; a figure that is not finite is None."""
        figures = {
            name: getattr(self, name)
            for name in (
                "loss",
                "perplexity",
                "accuracy",
                "bits_per_character",
                "bits_per_byte",
                "word_perplexity",
                "word_or_line_perplexity",
            )
        }
        finite = {name: each if math.isfinite(each) else None for name, each in figures.items()}
        return {**finite, **asdict(self)}


def perplexity(
    writer: Foreteller,
    pieces: Iterable[Piece],
    context: int | None = None,
    stride: int | None = None,
    at_once: int = AT_ONCE,
    progress: Callable[[int], None] = lambda _: None,
) -> Perplexity:
    """Of the documents in these pieces. The context is the model's unless given, the stride the
    context; `progress` hears how many more tokens are done."""
    context, stride = _checked(context, stride, writer.max_length)
    tally = _Tally()
    rows = windows(_ids(writer, pieces, tally), context, stride)
    nats, tokens, right, count = 0.0, 0, 0, 0
    while batch := list(islice(rows, max(1, at_once // context))):
        found, hits = _foretell(writer, batch)
        counted = sum(window.counted for window in batch)
        nats, right, tokens, count = (
            nats + found,
            right + hits,
            tokens + counted,
            count + len(batch),
        )
        progress(counted)
    if not tokens:
        raise DataError("there is no text of two tokens or more, so nothing can be foretold.")
    return Perplexity(context, stride, nats, tokens, right, count, **asdict(tally))


def _checked(context: int | None, stride: int | None, most: int) -> tuple[int, int]:
    context = most if context is None else context
    if not 1 <= context <= most:
        raise ConfigError(
            f"a context of {context:,} tokens: this model takes from 1 to {most:,} of them."
        )
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise ConfigError(
            f"a stride of {stride:,} tokens would pass over some: give one from 1 to the context, "
            f"{context:,}."
        )
    return context, stride


@dataclass
class _Tally:
    """What was read."""

    documents: int = 0
    characters: int = 0
    bytes: int = 0
    words: int = 0
    lines: int = 0
    lossless: bool = True

    def count(self, text: str) -> None:
        self.characters += len(text)
        self.bytes += len(text.encode())
        self.words += len(text.split())
        self.lines += text.count("\n")


def _ids(writer: Foreteller, pieces: Iterable[Piece], tally: _Tally) -> Iterator[Ids | None]:
    """All that the model is given, and None wherever it begins with something new."""
    tokenizer, begin = writer.tokenizer, list(writer.bos)
    running, ended, unseen = StreamingEncoder(tokenizer), True, not begin
    for text, ends in pieces:
        if ended:
            if tally.documents:
                tally.lines += 1
                yield [tokenizer.end]
            if begin:
                yield None
                yield begin
            tally.documents += 1
            running = StreamingEncoder(tokenizer)
        skipped = 0
        if unseen and (spans := tokenizer.spans(text)):  # nothing foretells the very first
            skipped, unseen = spans[0][2], False
        tally.count(text[skipped:])
        tally.lossless &= tokenizer.decode(tokenizer.encode(text)) == text
        yield running.add(text)
        if ends:
            yield running.finish()
        ended = ends
    yield running.finish()


class Window(NamedTuple):
    ids: Ids  # at most context + 1
    counted: int  # so many of the last ones


def windows(chunks: Iterable[Ids | None], context: int, stride: int) -> Iterator[Window]:
    """Every id but the first foretold once; the same anew after each None."""
    held: Ids = []
    known = 1  # ids at the beginning of what is held that need not be foretold
    for chunk in chunks:
        if chunk is None:
            if len(held) > known:
                yield Window(held, len(held) - known)
            held, known = [], 1
            continue
        held = held + chunk
        at = 0
        while len(held) - at > context:
            yield Window(held[at : at + context + 1], context + 1 - known)
            at, known = at + stride, context + 1 - stride
        held = held[at:]
    if len(held) > known:
        yield Window(held, len(held) - known)


@torch.inference_mode()
def _foretell(writer: Foreteller, batch: Sequence[Window]) -> tuple[float, int]:
    """−Σ log p of what these windows count, and how much of it was found likeliest."""
    model, device = writer.model, next(writer.model.parameters()).device
    ids, token_mask = pad([window.ids for window in batch], writer.tokenizer.pad)
    first = torch.tensor([len(window.ids) - window.counted for window in batch])
    asked = (token_mask & (torch.arange(ids.size(1)) >= first[:, None]))[:, 1:].to(device)
    ids = ids.to(device)
    states, words = model.states(ids[:, :-1])[asked], ids[:, 1:][asked]
    nats, right = 0.0, 0
    rows = max(1, SLICE // model.output.out_features)
    for some, wanted in zip(*(torch.split(each, rows) for each in (states, words)), strict=True):
        logits = model.output(some).float()
        nats += float(F.cross_entropy(logits, wanted, reduction="none").double().sum())
        right += int((logits.argmax(-1) == wanted).sum())
    return nats, right


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _share(total: float, count: int) -> float:
    return total / count if count else math.nan
