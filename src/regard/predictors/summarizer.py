"""A summarizer: a long text in, a short one out.

A text is read whole: nothing is cut into sentences. A model may have been trained on the beginnings
of texts (`task.source`); then that is all it reads, and it tells of which texts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.decoding.beam import Hypothesis
from regard.decoding.config import DecodingConfig
from regard.decoding.scoring import Score
from regard.engine.select import Decodable
from regard.errors import ConfigError, DataError
from regard.predictors.seq2seq import Ids, Model, Request, Seq2SeqRunner

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Summary:
    text: str
    score: float  # log p / length^α; not a number where greedy decoding did without


class Summarizer:
    """What `regard.load` gives for a run of the summarization job."""

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        max_length: int,
        says: int,
        source: int | None = None,
        bits: int = 32,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.says = says  # tokens of a summary, at most: as many as the longest it learned from
        self.source = source  # tokens of a text that are read, where not all of them
        self.answering = Seq2SeqRunner(model, tokenizer, max_length, bits, ())

    @property
    def decodable(self) -> Decodable:
        return self.answering.decodable

    @property
    def device(self) -> torch.device:
        return self.answering.device

    @property
    def longest(self) -> int:
        """Tokens of a text, at most. Where text and summary are one sequence there is room left for
        the longest summary, unless that is half of it, or the recipe said how much is read."""
        if not self.model.single_sequence:
            return self.max_length - 1
        return max(self.source or 0, self.max_length - 2 - self.says, self.max_length // 2)

    def summarize(
        self,
        texts: Sequence[str],
        on_progress: Callable[[int], None] | None = None,
        beam: int = 1,
        search: DecodingConfig | None = None,
        prefix: str = "",
        tokens: int | None = None,
        notice: Notice | None = None,
    ) -> list[str]:
        """As many summaries out as texts in; of a blank text, none.

        `beam` is how many beginnings are followed at a time: 1 is greedy; 5 is slower and usually
        better; `search` says more. Each summary begins with `prefix` and has at most `tokens`
        tokens: unless given, as many as the longest that the model learned from. `on_progress`
        hears how many texts were done each time some are, `notice` which texts are read in part.
        """
        found = self.candidates(
            texts, on_progress, search or DecodingConfig(beam=beam), prefix, tokens, notice
        )
        return [candidates[0].text for candidates in found]

    def candidates(
        self,
        texts: Sequence[str],
        on_progress: Callable[[int], None] | None = None,
        search: DecodingConfig | None = None,
        prefix: str = "",
        tokens: int | None = None,
        notice: Notice | None = None,
        names: Sequence[str] | None = None,
    ) -> list[list[Summary]]:
        """The best summaries of each text, best first: `search.n_best` at most.

        `names` are what texts are called where something is said of them: text 1 and so on.
        """
        if tokens is not None and tokens < 1:
            raise ConfigError(f"a summary of {tokens} tokens is none: give 1 or more.")
        full = [number for number, text in enumerate(texts) if text.strip()]
        called = names or [f"text {number}" for number in range(1, len(texts) + 1)]
        asked = [
            Request(self.source_ids(texts[at], called[at], notice), tokens or self.says)
            for at in full
        ]
        begun = self.tokenizer.encode(prefix) if prefix else []

        def done(which: Sequence[int]) -> None:
            if on_progress is not None:
                on_progress(len(which))

        found = dict(
            zip(
                full,
                self.answering.find(asked, search or DecodingConfig(), begun, done),
                strict=True,
            )
        )
        if on_progress is not None:
            on_progress(len(texts) - len(full))
        blank = [Hypothesis([], 0.0)]
        return [
            [Summary(self.tokenizer.decode(each.ids), each.score) for each in found.get(at, blank)]
            for at in range(len(texts))
        ]

    def stream(self, text: str) -> Iterator[str]:
        """A text's summary as it grows, by greedy decoding."""
        yield from self.answering.stream(Request(self.source_ids(text, "the text"), self.says))

    def score(self, texts: Sequence[str], summaries: Sequence[str]) -> list[Score]:
        """How likely the model finds given summaries."""
        if len(texts) != len(summaries):
            raise DataError(
                f"there are {len(texts):,} texts and {len(summaries):,} summaries: give one "
                f"summary for each."
            )
        asked = [self.source_ids(text, f"text {n}") for n, text in enumerate(texts, start=1)]
        said = [
            self.target_ids(line, self.answering.room(source), f"summary {n}")
            for n, (line, source) in enumerate(zip(summaries, asked, strict=True), start=1)
        ]
        return self.answering.score(asked, said)

    def say(self, sources: Sequence[Ids]) -> list[Ids]:
        """The summary of each source, as ids, by greedy decoding."""
        asked = [Request(source, self.says) for source in sources]
        return [found[0].ids for found in self.answering.find(asked, DecodingConfig(), [])]

    def source_ids(self, text: str, where: str, notice: Notice | None = None) -> Ids:
        """A text and its end as ids; one that this model cannot take is refused, not cut."""
        if not text.strip():
            raise DataError(f"{where}: there is no text to summarize.")
        ids = self.tokenizer.encode(text)
        if self.source is not None and len(ids) > self.source:
            if notice is not None:
                notice(
                    f"{where}: has {len(ids):,} tokens, of which the first {self.source:,} are "
                    f"read, as in training."
                )
            ids = ids[: self.source]
        if len(ids) > self.longest:
            raise DataError(
                f"{where}: the text has {len(ids):,} tokens ({len(text.split()):,} words) and this "
                f"model takes at most {self.longest:,}: shorten it, or train a model with a larger "
                f"model.max_length, or one that reads only beginnings (task.source)."
            )
        return [*ids, self.tokenizer.end]

    def target_ids(self, text: str, room: int, where: str) -> Ids:
        ids = self.tokenizer.encode(text)
        if len(ids) > room:
            raise DataError(
                f"{where}: has {len(ids):,} tokens and there is room for {room:,}: shorten it."
            )
        return ids
