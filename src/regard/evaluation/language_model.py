"""Loss and perplexity of a causal language model on a text of any length.

Every token but the first is predicted once. A window of `context` tokens slides over the text by
`stride`; only the tokens that the previous window did not contain are counted, so that each token
is predicted from at least context − stride earlier tokens (from all, near the start of the text).

    loss                 −Σ log p / tokens                 in nats; depends on the tokenizer
    perplexity           exp(loss)                         likewise
    bits per character   −Σ log2 p / characters            comparable across tokenizers, as are:
    bits per byte        −Σ log2 p / bytes of UTF-8
    word perplexity      exp(−Σ log p / words)             words are separated by white space
    … of words or lines  exp(−Σ log p / (words + lines))   a line end is a word, as in WikiText

The documents of a text are concatenated with the end token between them, which is predicted too. A
model that needs a prefix before every text (`bos`) processes each document separately.
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

BATCH_TOKENS = 8192
MAX_LOGITS = 1 << 22  # computed at once

Ids = list[int]


class CausalScorer(Protocol):
    """A language model with its tokenizer, such as a TextGenerator."""

    tokenizer: Tokenizer
    max_length: int
    bos: list[int]  # token ids before every text

    @property
    def model(self) -> LanguageModel: ...


class Piece(NamedTuple):
    """A part of a document, in whole lines, and whether the document ends with it."""

    text: str
    ends: bool = True


@dataclass(frozen=True)
class Perplexity:
    """Sums over the predicted tokens of a text, and the metrics that follow from them."""

    context: int
    stride: int
    nats: float  # −Σ log p
    tokens: int  # predicted
    correct: int  # predicted with the highest probability
    windows: int
    documents: int
    characters: int  # this and the next three: without the first token,
    bytes: int  # if it is not predicted
    words: int
    lines: int  # line ends and document ends
    lossless: bool  # True if decoding the tokens gives the text unchanged

    @property
    def loss(self) -> float:
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        return _exp(self.loss)

    @property
    def accuracy(self) -> float:
        return self.correct / self.tokens

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
        """Number of tokens, words, characters and bytes, in a sentence."""
        several = f" of {self.documents:,} documents" if self.documents > 1 else ""
        return (
            f"{self.tokens:,} tokens{several} in {self.windows:,} windows, {self.words:,} words, "
            f"{self.lines:,} line ends, {self.characters:,} characters, {self.bytes:,} bytes"
        )

    def to_plain(self) -> dict[str, Any]:
        """Plain data for model.json; a value that is not finite is None."""
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
        finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        return {**finite, **asdict(self)}


def perplexity(
    writer: CausalScorer,
    pieces: Iterable[Piece],
    context: int | None = None,
    stride: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    progress: Callable[[int], None] = lambda _: None,
) -> Perplexity:
    """Predict every token of a text but the first.

    Args:
        pieces: the documents of the text, in parts.
        context: tokens of a window (default: the model's maximum).
        stride: tokens by which the window moves (default: `context`).
        batch_tokens: tokens processed at once.
        progress: called with the number of tokens of each finished batch.

    Raises:
        ConfigError: context or stride is out of range.
        DataError: the text has fewer than two tokens.
    """
    context, stride = _checked(context, stride, writer.max_length)
    tally = _Tally()
    rows = windows(_ids(writer, pieces, tally), context, stride)
    nats, tokens, correct, count = 0.0, 0, 0, 0
    while batch := list(islice(rows, max(1, batch_tokens // context))):
        batch_nats, batch_correct = _predict(writer, batch)
        batch_count = sum(window.counted for window in batch)
        nats, correct = nats + batch_nats, correct + batch_correct
        tokens, count = tokens + batch_count, count + len(batch)
        progress(batch_count)
    if not tokens:
        raise DataError("the text has fewer than two tokens: there is nothing to predict.")
    return Perplexity(context, stride, nats, tokens, correct, count, **asdict(tally))


def _checked(context: int | None, stride: int | None, most: int) -> tuple[int, int]:
    context = most if context is None else context
    if not 1 <= context <= most:
        raise ConfigError(f"context: {context:,} tokens, but this model takes from 1 to {most:,}.")
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise ConfigError(
            f"stride: {stride:,} tokens; give a stride from 1 to the context, {context:,}, so that "
            f"no token is skipped."
        )
    return context, stride


@dataclass
class _Tally:
    """Counts of the text."""

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


def _ids(writer: CausalScorer, pieces: Iterable[Piece], tally: _Tally) -> Iterator[Ids | None]:
    """Token ids in chunks; None where a new sequence starts."""
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
        if unseen and (spans := tokenizer.spans(text)):  # the first token is not predicted
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
    counted: int  # number of the last ids that count


def windows(chunks: Iterable[Ids | None], context: int, stride: int) -> Iterator[Window]:
    """Windows in which every id but the first counts once; None starts a new sequence."""
    buffer: Ids = []
    known = 1  # ids at the start of the buffer that do not count
    for chunk in chunks:
        if chunk is None:
            if len(buffer) > known:
                yield Window(buffer, len(buffer) - known)
            buffer, known = [], 1
            continue
        buffer = buffer + chunk
        at = 0
        while len(buffer) - at > context:
            yield Window(buffer[at : at + context + 1], context + 1 - known)
            at, known = at + stride, context + 1 - stride
        buffer = buffer[at:]
    if len(buffer) > known:
        yield Window(buffer, len(buffer) - known)


@torch.inference_mode()
def _predict(writer: CausalScorer, batch: Sequence[Window]) -> tuple[float, int]:
    """−Σ log p of the tokens that count, and the number of those with the highest probability."""
    model, device = writer.model, next(writer.model.parameters()).device
    ids, token_mask = pad([window.ids for window in batch], writer.tokenizer.pad)
    first = torch.tensor([len(window.ids) - window.counted for window in batch])
    counted = (token_mask & (torch.arange(ids.size(1)) >= first[:, None]))[:, 1:].to(device)
    ids = ids.to(device)
    states, words = model.states(ids[:, :-1])[counted], ids[:, 1:][counted]
    nats, correct = 0.0, 0
    rows = max(1, MAX_LOGITS // model.output.out_features)
    for some, labels in zip(states.split(rows), words.split(rows), strict=True):
        logits = model.output(some).float()
        nats += float(F.cross_entropy(logits, labels, reduction="none").double().sum())
        correct += int((logits.argmax(-1) == labels).sum())
    return nats, correct


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _share(total: float, count: int) -> float:
    return total / count if count else math.nan
