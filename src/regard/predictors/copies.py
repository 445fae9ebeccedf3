"""Parts of a source that a translation should contain unchanged: numbers, links, names, emoji.

A small model may lose or misspell them. Then other hypotheses of the beam are tried, a misspelled
part is replaced, and what is still lost is required when the source is decoded again
(`decoding/lexical_constraints.py`).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

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
SPELLED = re.compile(r"""[^\s,;!?()«»“”"'’]*[^\s,;:.!?()«»“”"'’]""")  # words, numbers and links
MIN_SIMILARITY = 0.4  # of a part and its misspelling


def restore_lost(
    runner: Seq2SeqRunner,
    sources: Sequence[str],
    requests: Sequence[Request],
    results: list[list[Hypothesis]],
    decoding: DecodingConfig,
) -> None:
    """Replace results that lost parts of their sources by hypotheses that lost fewer."""
    tokenizer = runner.tokenizer
    wide = replace(decoding, beam=max(decoding.beam, CONSTRAINED_BEAM))
    lost = {
        row: parts
        for row, result in enumerate(results)
        if (parts := _lost_in(sources[row], result[0], tokenizer))
    }

    def keep_better(row: int, hypotheses: Sequence[Hypothesis]) -> list[str]:
        """Put the hypothesis that lost the fewest parts first, if it lost fewer; return those."""
        losses = [_lost_in(sources[row], hypothesis, tokenizer) for hypothesis in hypotheses]
        best = min(range(len(losses)), key=lambda index: len(losses[index]))
        if len(losses[best]) < len(lost[row]):
            others = [hypothesis for hypothesis in results[row] if hypothesis != hypotheses[best]]
            results[row] = [hypotheses[best], *others][: decoding.n_best]
            lost[row] = losses[best]
        return losses[best]

    beams = runner.decode([requests[row] for row in lost], replace(wide, n_best=wide.beam))
    for row, hypotheses in zip(lost, beams, strict=True):
        is_free = not (requests[row].prefix or requests[row].phrases)
        if keep_better(row, hypotheses) and is_free:
            keep_better(row, [_respelled(sources[row], results[row][0], lost[row], tokenizer)])
    required = {row: parts for row, parts in lost.items() if parts}
    for _ in range(ATTEMPTS):
        again = {
            row: request
            for row, parts in required.items()
            if (request := _requiring(runner, requests[row], parts))
        }
        earlier, required = required, {}
        decoded = runner.decode(list(again.values()), wide)
        for row, hypotheses in zip(again, decoded, strict=True):
            if still_lost := keep_better(row, hypotheses[:1]):
                required[row] = [*earlier[row], *still_lost]  # to place one may lose another


def _lost_in(source: str, hypothesis: Hypothesis, tokenizer: Tokenizer) -> list[str]:
    return lost_copies(source, tokenizer.decode(hypothesis.ids), tokenizer)


def _respelled(
    source: str, hypothesis: Hypothesis, lost: Sequence[str], tokenizer: Tokenizer
) -> Hypothesis:
    text = respelled(source, tokenizer.decode(hypothesis.ids), lost)
    return hypothesis._replace(ids=tokenizer.encode(text))


def respelled(source: str, translation: str, lost: Sequence[str]) -> str:
    """Return a translation with the words that are most like the lost parts replaced by them."""
    copied = set(SPELLED.findall(source))
    for part in lost:
        words = [
            match
            for match in SPELLED.finditer(translation)
            if match[0] not in copied and _may_be(match[0], part)
        ]
        likeness = [_similarity(word[0], part) for word in words]
        if max(likeness, default=0) >= MIN_SIMILARITY:
            word = words[likeness.index(max(likeness))]
            translation = translation[: word.start()] + part + translation[word.end() :]
    return translation


def _may_be(word: str, part: str) -> bool:
    """Return whether a word may be a part misspelled: a number has digits, a name a capital."""
    if part[0].isdigit():
        return any(map(str.isdigit, word))
    return not (part[0].isupper() and word.islower())


def _similarity(word: str, part: str) -> float:
    return SequenceMatcher(None, word.casefold(), part.casefold(), autojunk=False).ratio()


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
