"""What each kind of model does with a text: how it is run, and what then looks at what.

A new kind of model is one more function here; all that is drawn follows from its `Reading`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.data.sources.trees import Parsed
from regard.data.tokenizers.tokenizer import END, START, Tokenizer
from regard.errors import DataError
from regard.predictors.classifier import Classifier
from regard.predictors.embedder import Embedder
from regard.predictors.generator import TextGenerator
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.span_filler import SpanFiller
from regard.predictors.summarizer import Summarizer
from regard.predictors.translator import Translator


class Words(NamedTuple):
    """A row of pieces as a person reads them, and the number of the word that each is part of."""

    pieces: tuple[str, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """One kind of attention: where in the model, and who looks at whom."""

    name: str
    title: str
    blocks: str  # the stack, by name
    attention: str  # in each of its blocks
    queries: Words
    keys: Words
    predicts: tuple[str, ...] = ()
    causal: bool = False
    given: int = 0  # which of the texts that the model is given the keys are


@dataclass(frozen=True)
class Reading:
    """A model about to read a text."""

    model: nn.Module
    run: Callable[[], Tensor]  # the answer to be explained: log-probabilities of all it says (N,)
    parts: tuple[Part, ...]
    output: str  # what it said of the text, if anything
    decoder: str = ""  # the stack that says what comes next, by name; "" where none does
    tokenizer: Tokenizer | None = None  # of what comes next


def reading(loaded: Any, text: str | Parsed, to: str | None = None) -> Reading:
    """How what `regard.load` gave reads a text; a translator says it in the language `to`."""
    if isinstance(loaded, Translator):
        return _translating(loaded, _plain(text), to)
    if to is not None:
        raise DataError(
            f"a {type(loaded).__name__.lower()} speaks as it was given: leave out 'to'."
        )
    if isinstance(loaded, Classifier):
        return _judging(loaded, text)
    ways: dict[type, Callable[[Any, str], Reading]] = {
        Summarizer: _summarizing,
        TextGenerator: _writing,
        Embedder: _encoding,
        MaskFiller: _filling,
        SpanFiller: _spanning,
    }
    return ways[type(loaded)](loaded, _plain(text))


def _plain(text: str | Parsed) -> str:
    """Without its tree: only a labeller reads trees."""
    return text if isinstance(text, str) else text.text


def _translating(loaded: Translator, text: str, to: str | None) -> Reading:
    to = to or loaded.other_language(text)
    source = loaded.source_ids(text, to, "the sentence")
    return _reading_and_writing(loaded, source, loaded.say([source])[0])


def _summarizing(loaded: Summarizer, text: str) -> Reading:
    source = loaded.source_ids(text, "the text")
    return _reading_and_writing(loaded, source, loaded.say([source])[0])


def _spanning(loaded: SpanFiller, text: str) -> Reading:
    """What it says of the blanks, each between the marks of its own and the next."""
    source, target = loaded.ids(text), []
    for mark, (_, best) in zip(loaded.sentinels, loaded.spans(source, 1), strict=False):
        target += [mark, *best]
    return _reading_and_writing(loaded, source, target)


def _reading_and_writing(
    loaded: Translator | Summarizer | SpanFiller, source: Sequence[int], target: Sequence[int]
) -> Reading:
    """What is read, and what is then written."""
    if loaded.model.single_sequence:
        return _reading_on(loaded, source, target)
    words = _words(loaded.tokenizer, source)
    said = _words(loaded.tokenizer, target)
    queries = Words((START, *said.pieces), (0, *(number + 1 for number in said.numbers)))
    predicts = (*said.pieces, END)
    inputs = (
        _row(loaded, source),
        _token_mask(loaded, source),
        _row(loaded, [loaded.tokenizer.start, *target]),
    )
    wanted = [*target, loaded.tokenizer.end]
    back = ("Decoder self-attention", "decoder.blocks", "attention")
    return Reading(
        loaded.model,
        lambda: _log_p(loaded.model(*inputs)[0], wanted),
        (
            Part("encoder", "Encoder self-attention", "encoder.blocks", "attention", words, words),
            Part("decoder", *back, queries, queries, predicts, causal=True, given=1),
            Part("cross", "Cross-attention", "decoder.blocks", "cross", queries, words, predicts),
        ),
        loaded.tokenizer.decode(target),
        "decoder",
        loaded.tokenizer,
    )


def _reading_on(
    loaded: Translator | Summarizer | SpanFiller, source: Sequence[int], target: Sequence[int]
) -> Reading:
    """The same in one sequence; what comes after a word of the source is its next one."""
    said = [loaded.tokenizer.start, *target]
    inputs = (_row(loaded, source), _token_mask(loaded, source), _row(loaded, said))
    wanted = [*target, loaded.tokenizer.end]
    words = _words(loaded.tokenizer, [*source, *said])
    part = ("decoder", "Self-attention", "decoder.blocks", "attention", words, words)
    return Reading(
        loaded.model,
        lambda: _log_p(loaded.model(*inputs)[0], wanted),
        (Part(*part, (*words.pieces[1:], END), causal=True),),
        loaded.tokenizer.decode(target),
        "decoder",
        loaded.tokenizer,
    )


def _writing(loaded: TextGenerator, text: str) -> Reading:
    ids = loaded.ids(text)
    row = _row(loaded, ids)
    with torch.inference_mode():
        likeliest = loaded.model(row)[0].argmax(-1).tolist()
    words = _words(loaded.tokenizer, ids)
    predicts = tuple(loaded.tokenizer.pieces(likeliest))
    title = "Self-attention"
    return Reading(
        loaded.model,
        lambda: _log_p(loaded.model(row)[0], likeliest),
        (Part("decoder", title, "decoder.blocks", "attention", words, words, predicts, True),),
        "",
        "decoder",
        loaded.tokenizer,
    )


def _judging(loaded: Classifier, text: str | Parsed) -> Reading:
    asked = loaded.split(text) if isinstance(text, str) else text
    ids = loaded.ids(asked)
    inputs = loaded.read([(ids, asked, "the text")])
    judged = loaded.classify([asked])[0]
    label = loaded.labels.index(judged.label)
    words = _words(loaded.tokenizer, ids)
    return Reading(
        loaded.model,
        lambda: loaded.calibrated(loaded.model(*inputs))[0, [label]],
        (Part("encoder", "Self-attention", "encoder.blocks", "attention", words, words),),
        f"{judged.label} ({judged.probability:.0%})",
    )


def _filling(loaded: MaskFiller, text: str) -> Reading:
    """What it says of the blanks; of a text without any, what it says of every word."""
    ids = loaded.ids(text)
    row, token_mask = _row(loaded, ids), _token_mask(loaded, ids)
    asked = [place for place, each in enumerate(ids) if each == loaded.mask]
    places = asked or list(range(len(ids)))
    with torch.inference_mode():
        likeliest = loaded.model(row, token_mask)[0].argmax(-1).tolist()
    said = [likeliest[place] if place in asked else each for place, each in enumerate(ids)]
    words = _words(loaded.tokenizer, ids)
    return Reading(
        loaded.model,
        lambda: _log_p(loaded.model(row, token_mask)[0, places], [said[place] for place in places]),
        (Part("encoder", "Self-attention", "encoder.blocks", "attention", words, words),),
        loaded.tokenizer.decode(said) if asked else "",
    )


def _encoding(loaded: Embedder, text: str) -> Reading:
    ids = loaded.ids(text)
    row, token_mask = _row(loaded, ids), _token_mask(loaded, ids)
    words = _words(loaded.tokenizer, ids)
    return Reading(
        loaded.model,
        lambda: (
            loaded.model(row, token_mask)[0].mean(0).norm()[None]
        ),  # it says nothing: its vector
        (Part("encoder", "Self-attention", "blocks", "attention", words, words),),
        "",
    )


def _row(loaded: Any, ids: Sequence[int]) -> Tensor:
    device = next(loaded.model.parameters()).device
    return torch.tensor([ids], dtype=torch.long, device=device)


def _token_mask(loaded: Any, ids: Sequence[int]) -> Tensor:
    return torch.ones_like(_row(loaded, ids), dtype=torch.bool)


def _log_p(logits: Tensor, wanted: Sequence[int]) -> Tensor:
    """The log-probabilities of saying these, one at each place (T, V)."""
    ids = torch.tensor(wanted, device=logits.device)
    return logits.log_softmax(-1).gather(1, ids[:, None])[:, 0]


def _words(tokenizer: Tokenizer, ids: Sequence[int]) -> Words:
    """What a person reads; a special piece is a word of its own."""
    numbers: list[int] = []
    plain: list[int] = []
    for each in ids:
        special = each in tokenizer.special
        begins = not plain or special
        if not begins:
            before, after = (tokenizer.decode(some) for some in (plain, [*plain, each]))
            begins = len(after.split()) > len(before.split())
        numbers.append((numbers[-1] if numbers else -1) + begins)
        plain = [] if special else [each] if begins else [*plain, each]
    return Words(tuple(tokenizer.pieces(ids)), tuple(numbers))
