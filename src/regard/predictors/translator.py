"""Translate texts with a sequence-to-sequence model.

One model serves every direction it was trained for; a tag before the source selects the target
language. A text that is too long for the model is split between sentences, translated in segments
and joined again; nothing is left out. `SourceHandling` has more that is done for text as people
write it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from regard.data.direction import Direction
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.decoding.beam import Hypothesis
from regard.decoding.config import DecodingConfig, can_place_phrases, check_phrase_settings
from regard.decoding.ranges import MAX_TOKENS, check_count
from regard.decoding.scoring import Score
from regard.engine.select import EngineModel
from regard.engine.stored_model import StoredModel
from regard.errors import ConfigError, DataError
from regard.predictors.base import BasePredictor, named_texts
from regard.predictors.copies import CONSTRAINED_BEAM, restore_lost
from regard.predictors.placeholders import placeholders
from regard.predictors.segment import split_to_fit
from regard.predictors.seq2seq import Ids, Model, Request, Seq2SeqRunner
from regard.predictors.source_text import DEFAULT_HANDLING, SourceHandling, SourceText


@dataclass(frozen=True)
class Translation:
    """A translation of one line."""

    text: str
    score: float  # log p / length^α; NaN for greedy decoding without `return_scores`
    segments: tuple[tuple[str, str], ...] = ()  # source and translation of each segment
    finished: bool = True  # False if the maximum length ended it and the model would continue


@dataclass(frozen=True)
class _Segment:
    """A part of a line that fits the model."""

    line: int
    source: SourceText
    gap: str  # between its translation and that of the next segment
    request: Request


@dataclass(frozen=True)
class _Required:
    """Text that every translation must contain."""

    prefix: tuple[int, ...] = ()
    phrases: tuple[Ids, ...] = ()
    placeholders: bool = False  # those of its source

    @property
    def is_of_the_whole(self) -> bool:
        """True if the text may belong to any sentence of a line."""
        return bool(self.prefix or self.phrases)

    @property
    def options(self) -> str:
        """The options that it was given with."""
        options = {
            "--prefix": bool(self.prefix),
            "--require-phrase": bool(self.phrases),
            "--keep-placeholders": self.placeholders,
        }
        return ", ".join(option for option, is_given in options.items() if is_given)


class Translator(BasePredictor[Model]):
    """Predictor of a translation run.

    Args:
        model: The trained model.
        tokenizer: The tokenizer it was trained with.
        language_identifier: Identifies the language of a source.
        max_length: Maximum number of tokens of a source or target.
        directions: Pairs of source and target language that the model was trained for.
        bits: 32, or 8 or 4 for integer weights (default: 32).
        suppressed: Token ids that the model must not generate.
        handling: What is done for texts that are not like those of training (default: nothing).
        beam: Beam width where none is given; 1 is greedy decoding (default: 1).
    """

    default_target: str | None = None  # language of all translations without one of their own

    def __init__(
        self,
        model: Model | StoredModel,
        tokenizer: Tokenizer,
        language_identifier: LanguageIdentifier,
        max_length: int,
        directions: Sequence[Direction],
        bits: int = 32,
        suppressed: Sequence[int] = (),
        handling: SourceHandling = DEFAULT_HANDLING,
        beam: int = 1,
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        self.handling = handling
        self.beam = beam
        self.language_identifier = language_identifier
        self.directions = tuple(directions)
        self.suppressed = [[token] for token in suppressed]
        self.runner = Seq2SeqRunner(model, tokenizer, max_length, bits, self.suppressed)

    @property
    def languages(self) -> tuple[str, ...]:
        """Target languages of the model."""
        return tuple(dict.fromkeys(direction.target for direction in self.directions))

    @property
    def engine_model(self) -> EngineModel:
        """The model for decoding: compiled where the engine supports it."""
        return self.runner.engine_model

    @property
    def max_source_tokens(self) -> int:
        """Maximum number of source tokens; in a single sequence, half is left for the target."""
        return self.max_length // 2 if self.runner.single_sequence else self.max_length

    def translate(
        self,
        lines: Sequence[str],
        to: str | None = None,
        on_progress: Callable[[int], None] | None = None,
        beam: int | None = None,
        decoding: DecodingConfig | None = None,
        require_phrases: Sequence[str] = (),
        prefix: str = "",
        keep_placeholders: bool = False,
        max_tokens: int | None = None,
    ) -> list[str]:
        """Translate lines; a blank line stays blank.

        Args:
            lines: Texts to translate, of any length.
            to: Target language; may be omitted when the model knows one target for a line.
            on_progress: Called with the number of lines of each finished batch.
            beam: Beam width; 1 is greedy decoding, 5 is slower and usually better (default: that
                of the model, which is 1 if its recipe did not set another).
            decoding: All settings of decoding, instead of `beam`.
            require_phrases: Phrases that every translation must contain.
            prefix: Text that every translation begins with.
            keep_placeholders: Keep numbers, links and variables of the source (default: False).
            max_tokens: Maximum number of tokens of a translation, or of each segment of a text
                that is too long for the model; those of the prefix and the phrases included
                (default: twice the source's, plus 10, plus those of the prefix and the phrases).

        Returns:
            One translation for each line, in the same order.

        Raises:
            DataError: The target language is unknown, or cannot be inferred; or the prefix and the
                phrases are longer than a translation may be.
            ConfigError: `max_tokens` is below 1, or the settings exclude each other.

        Example:
            >>> import regard
            >>> translator = regard.load_translator("runs/demo")
            >>> translator.translate(["The cat sleeps.", ""], to="fr", beam=5)
            ['Le chat dort.', '']
        """
        candidates = self.candidates(
            lines,
            to,
            on_progress,
            decoding or DecodingConfig(beam=self.beam if beam is None else beam),
            require_phrases,
            prefix,
            keep_placeholders,
            max_tokens,
        )
        return [translations[0].text for translations in candidates]

    def candidates(
        self,
        lines: Sequence[str],
        to: str | None = None,
        on_progress: Callable[[int], None] | None = None,
        decoding: DecodingConfig | None = None,
        require_phrases: Sequence[str] = (),
        prefix: str = "",
        keep_placeholders: bool = False,
        max_tokens: int | None = None,
        names: Sequence[str] | None = None,
    ) -> list[list[Translation]]:
        """Return the best translations of each line, best first, with their scores.

        Args:
            lines: Texts to translate, of any length.
            to: Target language; may be omitted when the model knows one target for a line.
            on_progress: Called with the number of lines of each finished batch.
            decoding: Settings of decoding; `n_best` is the number of translations (default: the
                beam of the model).
            require_phrases: Phrases that every translation must contain.
            prefix: Text that every translation begins with.
            keep_placeholders: Keep numbers, links and variables of the source (default: False).
            max_tokens: Maximum number of tokens of a translation, or of each segment of a text
                that is too long for the model; those of the prefix and the phrases included
                (default: twice the source's, plus 10, plus those of the prefix and the phrases).
            names: Names of the lines in error messages (default: line 1, line 2 …).

        Returns:
            One to `decoding.n_best` different translations for each line: as many as were found.

        Raises:
            DataError: The target language is unknown, or cannot be inferred; or the prefix and the
                phrases are longer than a translation may be.
            ConfigError: `max_tokens` is below 1, or the settings exclude each other.

        Example:
            >>> import regard
            >>> translator = regard.load_translator("runs/demo")
            >>> decoding = regard.DecodingConfig(beam=4, n_best=2)
            >>> ((best, second),) = translator.candidates(["A cat."], "fr", decoding=decoding)
            >>> best.score > second.score
            True
        """
        decoding = decoding or DecodingConfig(beam=self.beam)
        if max_tokens is not None:
            check_count("max_tokens", max_tokens, 1, MAX_TOKENS)
        lines, names = named_texts(lines, "line", names)
        required = self._required(prefix, require_phrases, keep_placeholders)
        if keep_placeholders or required.phrases:
            check_phrase_settings(decoding)
            if decoding.beam == 1:
                decoding = replace(decoding, beam=CONSTRAINED_BEAM)
        segments = self._segments(lines, names, to, required, max_tokens)
        hypotheses = self._decode(segments, decoding, on_progress or (lambda _: None))
        return self._join(len(lines), segments, hypotheses)

    def _decode(
        self, segments: Sequence[_Segment], decoding: DecodingConfig, advance: Callable[[int], None]
    ) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each segment; an empty one for text that is copied."""
        translated = [segment for segment in segments if not segment.source.copied]
        advance(sum(not segment.gap for segment in segments if segment.source.copied))

        def report(finished: Sequence[int]) -> None:
            advance(sum(not translated[i].gap for i in finished))

        requests = [segment.request for segment in translated]
        results = self.runner.decode(requests, decoding, report)
        if self.handling.restore_lost and can_place_phrases(decoding):
            sources = [segment.source.text for segment in translated]
            restore_lost(self.runner, sources, requests, results, decoding)
        following = iter(results)
        return [
            [Hypothesis([], 0.0)] if segment.source.copied else next(following)
            for segment in segments
        ]

    def stream(self, text: str, to: str | None = None) -> Iterator[str]:
        """Yield a text's translation as it is generated, by greedy decoding.

        Args:
            text: A text of any length.
            to: Target language; may be omitted when the model knows one target for the text.

        Raises:
            DataError: The target language is unknown, or cannot be inferred.

        Example:
            >>> import regard
            >>> translator = regard.load_translator("runs/demo")
            >>> "".join(translator.stream("The cat sleeps.", to="fr"))
            'Le chat dort.'
        """
        (lines, names) = named_texts([text], names=["the text"])
        for segment in self._segments(lines, names, to, _Required()):
            yield from filter(None, self._stream(segment))

    def stream_segments(
        self, text: str, to: str | None = None, decoding: DecodingConfig | None = None
    ) -> Iterator[Translation]:
        """Yield the translation of each segment of a text, with the space after it.

        Joined, they are the translation of the text.

        Args:
            text: A text of any length.
            to: Target language; may be omitted when the model knows one target for the text.
            decoding: Settings of decoding (default: the beam of the model).

        Raises:
            DataError: The target language is unknown, or cannot be inferred.

        Example:
            >>> import regard
            >>> translator = regard.load_translator("runs/demo")
            >>> [part.text for part in translator.stream_segments("The cat sleeps.", to="fr")]
            ['Le chat dort.']
        """
        decoding = decoding or DecodingConfig(beam=self.beam)
        (lines, names) = named_texts([text], names=["the text"])
        for segment in self._segments(lines, names, to, _Required()):
            hypotheses = self._decode([segment], decoding, lambda _: None)
            yield self._join_rank([0], [segment], hypotheses, 0)

    def _stream(self, segment: _Segment) -> Iterator[str]:
        source = segment.source
        yield source.before
        if source.copied:
            yield source.text
        else:
            for part in self.runner.stream(segment.request):
                yield part.upper() if source.capitals else part
        yield source.after + segment.gap

    def score(
        self, sources: Sequence[str], targets: Sequence[str], to: str | None = None
    ) -> list[Score]:
        """Return the log-likelihood of given translations.

        Args:
            sources: Texts that fit the model.
            targets: One translation for each source.
            to: Target language; may be omitted when the model knows one target for a line.

        Returns:
            The log-probabilities of each translation's tokens.

        Raises:
            DataError: The numbers of sources and targets differ, or a text is too long.

        Example:
            >>> import regard
            >>> translator = regard.load_translator("runs/demo")
            >>> good, bad = translator.score(
            ...     ["The cat sleeps."] * 2, ["Le chat dort.", "Le chien dort."], to="fr"
            ... )
            >>> good.perplexity < bad.perplexity
            True
        """
        (sources, _), (targets, _) = named_texts(sources), named_texts(targets, "translation")
        if len(sources) != len(targets):
            raise DataError(
                f"there are {len(sources):,} sources and {len(targets):,} translations: "
                f"give one translation for each."
            )
        source_ids = [
            self.source_ids(source, to or self.target_language(source), f"line {number}")
            for number, source in enumerate(sources, start=1)
        ]
        target_ids = [
            self.target_ids(line, f"line {number}") for number, line in enumerate(targets, start=1)
        ]
        return self.runner.score(source_ids, target_ids)

    def target_ids(self, text: str, name: str) -> Ids:
        """Return the ids of a translation, without start and end token.

        Args:
            text: A translation.
            name: Name of the text in error messages.

        Raises:
            DataError: The translation is too long for the model.

        Example:
            >>> import regard
            >>> translator = regard.load_translator("runs/demo")
            >>> translator.tokenizer.decode(translator.target_ids("Le chat dort.", "line 1"))
            'Le chat dort.'
        """
        ids = self.tokenizer.encode(text)
        # In a single sequence, the source may take half.
        source = self.max_source_tokens if self.runner.single_sequence else 0
        most = self.max_length - 1 - source
        if len(ids) > most:
            raise DataError(
                f"{name}: the translation has {len(ids):,} tokens and this model generates at most "
                f"{most}: split it into sentences, one a line."
            )
        return ids

    def target_language(self, text: str) -> str:
        """Return the target language for a text when there is only one.

        Args:
            text: A source; its language is identified if the model has several targets.

        Raises:
            DataError: The model knows several target languages for this source.

        Example:
            >>> import regard
            >>> regard.load_translator("runs/demo").target_language("The cat sleeps.")
            'fr'
        """
        if self.default_target is not None:
            return self.default_target
        if len(self.languages) == 1:
            return self.languages[0]
        source = self.language_identifier.identify(self.tokenizer.encode(text))
        targets = [direction.target for direction in self.directions if direction.source == source]
        if len(targets) != 1:
            raise DataError(
                f"the target language is not clear: give one of {', '.join(self.languages)}."
            )
        return targets[0]

    def source_ids(self, text: str, to: str, name: str) -> Ids:
        """Return the model's input ids for a text: language tag, if any, tokens and end token.

        Args:
            text: A source.
            to: Target language.
            name: Name of the text in error messages.

        Raises:
            DataError: The text is empty or too long, or the language is unknown.

        Example:
            >>> import regard
            >>> translator = regard.load_translator("runs/demo")
            >>> ids = translator.source_ids("The cat sleeps.", "fr", "line 1")
            >>> ids[-1] == translator.tokenizer.end
            True
        """
        if not text.strip():
            raise DataError(f"{name}: there is no text to translate.")
        ids = self._source_ids(text, to)
        if len(ids) > self.max_source_tokens:
            raise DataError(
                f"{name}: the text has {len(ids):,} tokens ({len(text.split()):,} words) and this "
                f"model takes at most {self.max_source_tokens}: split it into sentences, one a "
                f"line."
            )
        return ids

    def translate_ids(self, sources: Sequence[Ids], beam: int = 1) -> list[Ids]:
        """Return the target ids of each source, without start and end token.

        Args:
            sources: Ids of `source_ids`.
            beam: Beam width; 1 is greedy decoding (default: 1).

        Example:
            >>> import regard
            >>> translator = regard.load_translator("runs/demo")
            >>> ids = translator.source_ids("The cat sleeps.", "fr", "line 1")
            >>> translator.tokenizer.decode(translator.translate_ids([ids])[0])
            'Le chat dort.'
        """
        requests = [Request(source, _max_tokens(source)) for source in sources]
        hypotheses = self.runner.decode(requests, DecodingConfig(beam=beam))
        return [best.ids for best, *_ in hypotheses]

    def _source_ids(self, text: str, to: str) -> Ids:
        if to not in self.languages:
            raise DataError(f"this model cannot produce '{to}', only: {', '.join(self.languages)}.")
        tag = [self.tokenizer.special_id(to)] if len(self.languages) > 1 else []
        return [*tag, *self.tokenizer.encode(text), self.tokenizer.end]

    def _required(
        self, prefix: str, require_phrases: Sequence[str], keep_placeholders: bool
    ) -> "_Required":
        """Encode what every translation must contain."""
        if isinstance(require_phrases, str):
            raise ConfigError("require_phrases is one text; give a list of phrases: [phrase].")
        return _Required(
            tuple(self.runner.required_ids(prefix, "--prefix")) if prefix else (),
            tuple(self.runner.required_ids(text, "--require-phrase") for text in require_phrases),
            keep_placeholders,
        )

    def _segments(
        self,
        lines: Sequence[str],
        names: Sequence[str],
        to: str | None,
        required: "_Required",
        max_tokens: int | None = None,
    ) -> list[_Segment]:
        """Split all lines into segments that fit the model; a blank line has none.

        The first segment of a line contains what the translation must contain.
        """
        segments = []
        for number, (line, name) in enumerate(zip(lines, names, strict=True)):
            if not line.strip():
                continue
            source_ids = partial(self._source_ids, to=to or self.target_language(line))
            handling = DEFAULT_HANDLING if required.is_of_the_whole else self.handling
            for index, part in enumerate(
                split_to_fit(line, partial(self._fits, source_ids), handling.split_sentences)
            ):
                text = handling.source_text(part.text, self.tokenizer)
                kept = placeholders(text.text) if required.placeholders else []
                prefix = required.prefix if index == 0 else ()
                phrases = (
                    *map(self.tokenizer.encode, kept),
                    *(required.phrases if index == 0 else ()),
                )
                source = source_ids(text.text)
                default = _max_tokens(source) + len(prefix) + sum(map(len, phrases))
                request = Request(
                    source, max_tokens or default, phrases, prefix, name, required.options
                )
                segments.append(_Segment(number, text, part.gap, request))
        return segments

    def _fits(self, source_ids: Callable[[str], Ids], text: str) -> bool:
        return len(source_ids(text)) <= self.max_source_tokens

    def _join(
        self,
        count: int,
        segments: Sequence[_Segment],
        hypotheses: Sequence[list[Hypothesis]],
    ) -> list[list[Translation]]:
        """Join the segments of each line: the best of each, then the second best, and so on."""
        by_line: list[list[int]] = [[] for _ in range(count)]
        for number, segment in enumerate(segments):
            by_line[segment.line].append(number)
        translations = []
        for numbers in by_line:
            if not numbers:
                translations.append([Translation("", 0.0)])
                continue
            ranks = max(len(hypotheses[number]) for number in numbers)
            by_text: dict[str, Translation] = {}
            for rank in range(ranks):
                translation = self._join_rank(numbers, segments, hypotheses, rank)
                by_text.setdefault(translation.text, translation)
            translations.append(list(by_text.values()))
        return translations

    def _join_rank(
        self,
        numbers: Sequence[int],
        segments: Sequence[_Segment],
        hypotheses: Sequence[list[Hypothesis]],
        rank: int,
    ) -> Translation:
        """Join the segments of one line, each with its hypothesis of this rank or its last."""
        ranked = [hypotheses[number][min(rank, len(hypotheses[number]) - 1)] for number in numbers]
        parts = [segments[number] for number in numbers]
        texts = [
            part.source.text if part.source.copied else self.tokenizer.decode(hypothesis.ids)
            for part, hypothesis in zip(parts, ranked, strict=True)
        ]
        line = "".join(
            part.source.restored(text) + part.gap for part, text in zip(parts, texts, strict=True)
        )
        lengths = [len(hypothesis.ids) + 1 for hypothesis in ranked]
        total = sum(
            hypothesis.score * length for hypothesis, length in zip(ranked, lengths, strict=True)
        )
        pairs = tuple(
            (part.source.line, part.source.around(text))
            for part, text in zip(parts, texts, strict=True)
        )
        finished = all(hypothesis.finished for hypothesis in ranked)
        return Translation(line, total / sum(lengths), pairs, finished)


def _max_tokens(source: Ids) -> int:
    """Default of the maximum number of tokens of a translation."""
    return 2 * len(source) + 10
