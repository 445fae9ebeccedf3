"""Parts of a source that a translation should contain unchanged: numbers, links, names, emoji.

A small model may lose them. Those that a translation lacks are required when it is decoded again
(`decoding/lexical_constraints.py`).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.decoding.beam import Hypothesis
from regard.decoding.config import DecodingConfig
from regard.predictors.placeholders import PLACEHOLDER
from regard.predictors.seq2seq import Request, Seq2SeqRunner

CONSTRAINED_BEAM = 5  # greedy decoding cannot place phrases well
ATTEMPTS = 3  # to place what a translation lost

DIGITS = re.compile(r"\d+")
NAME = re.compile(r"(?<![\w'’.-])(?:\w{1,2}['’]|[Qq]u['’])?([^\W\d_][\w-]*)")
MIN_PIECES = 4  # of a name: one that training has seen often has fewer


def restore_lost(
    runner: Seq2SeqRunner,
    sources: Sequence[str],
    requests: Sequence[Request],
    results: list[list[Hypothesis]],
    decoding: DecodingConfig,
) -> None:
    """Decode again, with what was lost as required phrases, and replace those results.

    To place one phrase may lose another, which is then required too.
    """
    wide = replace(decoding, beam=max(decoding.beam, CONSTRAINED_BEAM))

    def lost_in(row: int, result: list[Hypothesis]) -> list[str]:
        translation = runner.tokenizer.decode(result[0].ids)
        return lost_copies(sources[row], translation, runner.tokenizer)

    lost = {row: lost_in(row, result) for row, result in enumerate(results)}
    required = {row: texts for row, texts in lost.items() if texts}
    for _ in range(ATTEMPTS):
        again = {
            row: request
            for row, texts in required.items()
            if (request := _requiring(runner, requests[row], texts))
        }
        earlier, required = required, {}
        decoded = runner.decode(list(again.values()), wide)
        for row, result in zip(again, decoded, strict=True):
            if still_lost := lost_in(row, result):
                required[row] = [*earlier[row], *still_lost]
            if len(still_lost) < len(lost[row]):
                results[row], lost[row] = result, still_lost


def _requiring(runner: Seq2SeqRunner, request: Request, texts: Sequence[str]) -> Request | None:
    """Return a request whose output has these texts; None if it cannot have them."""
    phrases = (*request.phrases, *map(runner.tokenizer.encode, texts))
    tokens = [token for phrase in phrases for token in phrase]
    if runner.tokenizer.unknown in tokens:
        return None
    fits = len(request.prefix) + len(tokens) < runner.limit(request)
    return replace(request, phrases=phrases, whole_words=True) if fits else None


def lost_copies(source: str, translation: str, tokenizer: Tokenizer) -> list[str]:
    """Return the numbers, links, names and unseen characters that a translation lacks."""
    lost = [part for part in _placeholders(source) if not _contains(translation, part)]
    lost += [name for name in _names(source, tokenizer) if name not in translation]
    if not source.isascii():
        unseen = tokenizer.unknown_characters(source)
        lost += [
            character
            for character in unseen
            if character not in translation and not character.isascii()
        ]
    return list(dict.fromkeys(lost))


def _placeholders(text: str) -> Iterator[str]:
    yield from (match[0] for match in PLACEHOLDER.finditer(text))


def _contains(translation: str, placeholder: str) -> bool:
    """Return whether a placeholder is there; of a number, its digits, however they are grouped."""
    if placeholder in translation:
        return True
    if not placeholder[0].isdigit():
        return False
    groups = DIGITS.findall(placeholder)
    present = Counter(DIGITS.findall(translation))
    thousands = all(len(group) == 3 for group in groups[1:])
    return Counter(groups) <= present or (thousands and "".join(groups) in present)


def _names(text: str, tokenizer: Tokenizer) -> Iterator[str]:
    """Yield rare words with a capital letter, but for the first word of a text, which has one."""
    for match in NAME.finditer(text):
        word = match[1]
        inside = match.start() > 0 or any(map(str.isupper, word[1:]))
        if inside and word[0].isupper() and len(tokenizer.encode(word)) >= MIN_PIECES:
            yield word
