"""Summarize texts with a sequence-to-sequence model.

A text is encoded whole, not split into sentences. A model trained with `task.source` sees only the
first tokens of each text; a notice says which texts were truncated.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from regard.data.tokenizers.tokenizer import Tokenizer, require_text
from regard.decoding.beam import Hypothesis
from regard.decoding.config import DecodingConfig
from regard.decoding.ranges import MAX_TOKENS, check_count
from regard.decoding.scoring import Score
from regard.engine.select import EngineModel
from regard.engine.stored_model import StoredModel
from regard.errors import DataError
from regard.predictors.base import BasePredictor, named_texts
from regard.predictors.seq2seq import Ids, Model, Request, Seq2SeqRunner

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Summary:
    """A summary of one text."""

    text: str
    score: float  # log p / length^α; NaN for greedy decoding without `return_scores`
    finished: bool = True  # False if the maximum length ended it and the model would continue


class Summarizer(BasePredictor[Model]):
    """Predictor of a summarization run.

    Args:
        model: The trained model.
        tokenizer: The tokenizer it was trained with.
        max_length: Maximum number of tokens of a source or target.
        max_summary_tokens: Default length limit: the longest summary of the training data.
        truncate_source: Number of tokens that the model sees of a text; None means all.
        bits: 32, or 8 or 4 for integer weights (default: 32).
    """

    def __init__(
        self,
        model: Model | StoredModel,
        tokenizer: Tokenizer,
        max_length: int,
        max_summary_tokens: int,
        truncate_source: int | None = None,
        bits: int = 32,
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        self.max_summary_tokens = max_summary_tokens
        self.truncate_source = truncate_source
        self.runner = Seq2SeqRunner(model, tokenizer, max_length, bits, ())

    @property
    def engine_model(self) -> EngineModel:
        """The model for decoding: compiled where the engine supports it."""
        return self.runner.engine_model

    @property
    def max_source_tokens(self) -> int:
        """Maximum number of tokens of a text.

        In a single sequence the longest summary must fit after it, unless that is half of the
        sequence, or the recipe sets the length of sources.
        """
        if not self.runner.single_sequence:
            return self.max_length - 1
        beside_summary = self.max_length - 2 - self.max_summary_tokens
        return max(self.truncate_source or 0, beside_summary, self.max_length // 2)

    def summarize(
        self,
        texts: Sequence[str],
        on_progress: Callable[[int], None] | None = None,
        beam: int = 1,
        decoding: DecodingConfig | None = None,
        prefix: str = "",
        max_tokens: int | None = None,
        notice: Notice | None = None,
    ) -> list[str]:
        """Summarize texts; a blank text gives an empty summary.

        Args:
            texts: Texts that fit the model.
            on_progress: Called with the number of texts of each finished batch.
            beam: Beam width; 1 is greedy decoding, 5 is slower and usually better (default: 1).
            decoding: All settings of decoding, instead of `beam`.
            prefix: Text that every summary begins with.
            max_tokens: Maximum number of tokens of a summary, those of the prefix included
                (default: those of the longest summary in the training data, plus the prefix).
            notice: Called with a sentence for each text of which only the beginning is used.

        Returns:
            One summary for each text, in the same order.

        Raises:
            DataError: A text is too long for the model, or the prefix for a summary.
            ConfigError: `max_tokens` is below 1.

        Example:
            >>> import regard
            >>> summarizer = regard.load_summarizer("runs/summaries")
            >>> len(summarizer.summarize(["the cat sits on the mat", ""], beam=3))
            2
        """
        candidates = self.candidates(
            texts, on_progress, decoding or DecodingConfig(beam=beam), prefix, max_tokens, notice
        )
        return [summaries[0].text for summaries in candidates]

    def candidates(
        self,
        texts: Sequence[str],
        on_progress: Callable[[int], None] | None = None,
        decoding: DecodingConfig | None = None,
        prefix: str = "",
        max_tokens: int | None = None,
        notice: Notice | None = None,
        names: Sequence[str] | None = None,
    ) -> list[list[Summary]]:
        """Return the best summaries of each text, best first, with their scores.

        Args:
            texts: Texts that fit the model.
            on_progress: Called with the number of texts of each finished batch.
            decoding: Settings of decoding; `n_best` is the number of summaries (default: greedy).
            prefix: Text that every summary begins with.
            max_tokens: Maximum number of tokens of a summary, those of the prefix included
                (default: those of the longest summary in the training data, plus the prefix).
            notice: Called with a sentence for each text of which only the beginning is used.
            names: Names of the texts in notices and error messages (default: text 1, text 2 …).

        Returns:
            One to `decoding.n_best` different summaries for each text: as many as were found.

        Raises:
            DataError: A text is too long for the model, or the prefix for a summary.
            ConfigError: `max_tokens` is below 1.

        Example:
            >>> import regard
            >>> summarizer = regard.load_summarizer("runs/summaries")
            >>> decoding = regard.DecodingConfig(beam=3, n_best=2)
            >>> (summaries,) = summarizer.candidates(["the cat sits on the mat"], decoding=decoding)
            >>> len(summaries)
            2
        """
        if max_tokens is not None:
            check_count("max_tokens", max_tokens, 1, MAX_TOKENS)
        texts, names = named_texts(texts, names=names)
        full = [number for number, text in enumerate(texts) if text.strip()]
        prefix_ids = self.runner.required_ids(prefix, "--prefix") if prefix else []
        requests = [
            Request(
                self.source_ids(texts[number], names[number], notice),
                max_tokens or self.max_summary_tokens + len(prefix_ids),
                prefix=tuple(prefix_ids),
                name=names[number],
            )
            for number in full
        ]

        def report(finished: Sequence[int]) -> None:
            if on_progress is not None:
                on_progress(len(finished))

        decoded = self.runner.decode(requests, decoding or DecodingConfig(), report)
        hypotheses = dict(zip(full, decoded, strict=True))
        if on_progress is not None:
            on_progress(len(texts) - len(full))
        empty = [Hypothesis([], 0.0)]
        return [
            [
                Summary(
                    self.tokenizer.decode(hypothesis.ids), hypothesis.score, hypothesis.finished
                )
                for hypothesis in hypotheses.get(number, empty)
            ]
            for number in range(len(texts))
        ]

    def stream(self, text: str) -> Iterator[str]:
        """Yield a text's summary as it is generated, by greedy decoding.

        Args:
            text: A text that fits the model.

        Raises:
            DataError: The text is empty or too long for the model.

        Example:
            >>> import regard
            >>> summarizer = regard.load_summarizer("runs/summaries")
            >>> text = "the cat sits on the mat"
            >>> "".join(summarizer.stream(text)) == summarizer.summarize([text])[0]
            True
        """
        request = Request(self.source_ids(text, "the text"), self.max_summary_tokens)
        yield from self.runner.stream(request)

    def score(self, texts: Sequence[str], summaries: Sequence[str]) -> list[Score]:
        """Return the log-likelihood of given summaries.

        Args:
            texts: Texts that fit the model.
            summaries: One summary for each text.

        Returns:
            The log-probabilities of each summary's tokens.

        Raises:
            DataError: The numbers of texts and summaries differ, or one of them is too long.

        Example:
            >>> import regard
            >>> summarizer = regard.load_summarizer("runs/summaries")
            >>> (score,) = summarizer.score(["the cat sits on the mat"], ["the cat"])
            >>> score.total < 0
            True
        """
        (texts, _), (summaries, _) = named_texts(texts), named_texts(summaries, "summary")
        if len(texts) != len(summaries):
            raise DataError(
                f"there are {len(texts):,} texts and {len(summaries):,} summaries: give one "
                f"summary for each."
            )
        sources = [
            self.source_ids(text, f"text {number}") for number, text in enumerate(texts, start=1)
        ]
        targets = [
            self.target_ids(summary, self.runner.max_output(source), f"summary {number}")
            for number, (summary, source) in enumerate(
                zip(summaries, sources, strict=True), start=1
            )
        ]
        return self.runner.score(sources, targets)

    def summarize_ids(self, sources: Sequence[Ids]) -> list[Ids]:
        """Return the summary ids of each source, by greedy decoding.

        Args:
            sources: Ids of `source_ids`.

        Example:
            >>> import regard
            >>> summarizer = regard.load_summarizer("runs/summaries")
            >>> ids = summarizer.source_ids("the cat sits on the mat", "text 1")
            >>> len(summarizer.summarize_ids([ids]))
            1
        """
        requests = [Request(source, self.max_summary_tokens) for source in sources]
        return [best.ids for best, *_ in self.runner.decode(requests, DecodingConfig())]

    def source_ids(self, text: str, name: str, notice: Notice | None = None) -> Ids:
        """Return the model's input ids for a text, with the end token.

        Args:
            text: A text; one that is too long is refused, not truncated.
            name: Name of the text in notices and error messages.
            notice: Called with a sentence if only the beginning of the text is used.

        Raises:
            DataError: The text is empty or too long for the model.

        Example:
            >>> import regard
            >>> summarizer = regard.load_summarizer("runs/summaries")
            >>> ids = summarizer.source_ids("the cat sits on the mat", "text 1")
            >>> ids[-1] == summarizer.tokenizer.end
            True
        """
        require_text(text, name)
        if not text.strip():
            raise DataError(f"{name}: there is no text to summarize.")
        ids = self.tokenizer.encode(text)
        if self.truncate_source is not None and len(ids) > self.truncate_source:
            if notice is not None:
                notice(
                    f"{name}: has {len(ids):,} tokens, of which the first "
                    f"{self.truncate_source:,} are read, as in training."
                )
            ids = ids[: self.truncate_source]
        if len(ids) > self.max_source_tokens:
            raise DataError(
                f"{name}: the text has {len(ids):,} tokens ({len(text.split()):,} words) and this "
                f"model takes at most {self.max_source_tokens:,}: shorten it, or train a model "
                f"with a larger model.max_length, or one that reads only beginnings (task.source)."
            )
        return [*ids, self.tokenizer.end]

    def target_ids(self, text: str, limit: int, name: str) -> Ids:
        """Return the ids of a summary, without start and end token.

        Args:
            text: A summary.
            limit: Maximum number of tokens.
            name: Name of the summary in error messages.

        Raises:
            DataError: The summary has more tokens.

        Example:
            >>> import regard
            >>> summarizer = regard.load_summarizer("runs/summaries")
            >>> summarizer.tokenizer.decode(summarizer.target_ids("the cat", 20, "summary 1"))
            'the cat'
        """
        ids = self.tokenizer.encode(text)
        if len(ids) > limit:
            raise DataError(
                f"{name}: has {len(ids):,} tokens and there is room for {limit:,}: shorten it."
            )
        return ids
