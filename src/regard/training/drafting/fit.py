"""Values of a recipe that are fitted to a sample of the data: vocabulary, lengths, batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.recognition.recognized import RecognizedSource
from regard.data.tokenizers import bpe

# Characters of all texts, below which a vocabulary has this many pieces.
VOCABULARIES = ((200_000, 1000), (500_000, 2000), (1_500_000, 4000), (300_000_000, 8000))
LARGEST_VOCABULARY = 16_000
PIECES_PER_CHARACTER = 2  # of the distinct characters, which pieces must have room for
BYTE_PIECES = 260  # bytes and special tokens
MAX_CHARACTERS = 600_000  # of the sample that is tokenized
CHARACTER_TEXT = 2_000_000  # characters of running text, below which its characters are the tokens
CHARACTER_SET = 200  # distinct ones, up to which they can be

LENGTHS = (64, 128, 256, 512, 1024, 2048)  # that max_length is chosen from
KEPT = 0.995  # fraction of the sampled records that max_length keeps
# Pieces that are learned from a sample fit its texts better than others.
MARGIN = 1.25
SPECIAL_TOKENS = 2  # around a text
CONTEXT = 256  # tokens of running text

# Tokens of an epoch, below which a batch has so many: little text needs many small updates.
BATCHES = ((300_000, 1024), (1_000_000, 2048))
LARGEST_BATCH = 4096  # the default


@dataclass(frozen=True)
class Fit:
    """Values that fit a source of training data."""

    tokenizer: dict[str, Any]
    num_pieces: int  # at most
    tokens_per_epoch: int  # estimated
    lengths: tuple[int, ...]  # sorted, in tokens, of the longer text of each sampled record
    summed_lengths: tuple[int, ...]  # sorted, of all texts of a record together

    def max_length(self, *, together: bool = False, most: int = LENGTHS[-1]) -> int:
        """Return the maximum length that keeps almost all records, at most `most`."""
        needed = self.longest(together=together) + 4  # special tokens
        return next((length for length in LENGTHS if needed <= length <= most), most)

    def longest(self, *, together: bool = False) -> int:
        """Return the length in tokens that almost all records have at most."""
        lengths = self.summed_lengths if together else self.lengths
        return math.ceil(MARGIN * lengths[min(int(KEPT * len(lengths)), len(lengths) - 1)])

    def batch_tokens(self, max_length: int) -> int:
        """Return the number of tokens of a batch."""
        fitting = (size for tokens, size in BATCHES if self.tokens_per_epoch < tokens)
        return max(next(fitting, LARGEST_BATCH), 4 * max_length)


def fit_records(source: RecognizedSource) -> Fit:
    """Fit values to records of separate texts."""
    texts = _limited(source.texts)
    return _fit(source, texts, {"kind": "bpe", "vocabulary": _vocabulary(source, texts)})


def fit_running_text(source: RecognizedSource) -> Fit:
    """Fit values to running text, whose spaces and newlines are kept."""
    texts = _limited(source.texts)
    characters = {character for row in texts for text in row for character in text}
    if source.num_characters < CHARACTER_TEXT and len(characters) <= CHARACTER_SET:
        lengths = tuple(sorted(len(row[0]) for row in texts))
        pieces = BYTE_PIECES + len(characters)
        return Fit({"kind": "character"}, pieces, source.num_characters, lengths, lengths)
    settings = {"kind": "bpe", "vocabulary": _vocabulary(source, texts), "spaces": "keep"}
    return _fit(source, texts, settings)


def _fit(
    source: RecognizedSource,
    texts: Sequence[tuple[str, ...]],
    settings: dict[str, Any],
) -> Fit:
    tokenizer = bpe.Spec.model_validate(settings).train(text for row in texts for text in row)
    lengths = [[len(tokenizer.encode(text)) for text in row] for row in texts]
    characters = sum(len(text) for row in texts for text in row)
    tokens = sum(map(sum, lengths)) * source.num_characters / max(characters, 1)
    tokens += SPECIAL_TOKENS * len(texts[0]) * source.num_records
    return Fit(
        settings,
        len(tokenizer) if len(texts) == source.num_records else settings["vocabulary"],
        math.ceil(tokens),
        tuple(sorted(map(max, lengths))),
        tuple(sorted(map(sum, lengths))),
    )


def _vocabulary(source: RecognizedSource, texts: Sequence[tuple[str, ...]]) -> int:
    """Return the number of pieces for the amount of text and its script."""
    sizes = (size for limit, size in VOCABULARIES if source.num_characters < limit)
    characters = len({character for row in texts for text in row for character in text})
    needed = BYTE_PIECES + PIECES_PER_CHARACTER * characters
    return max(next(sizes, LARGEST_VOCABULARY), 1000 * math.ceil(needed / 1000))


def _limited(texts: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return texts of at most MAX_CHARACTERS in all, evenly spaced."""
    characters = sum(len(text) for row in texts for text in row)
    return list(texts[:: max(1, math.ceil(characters / MAX_CHARACTERS))])
