"""regard summarize: long texts in, short ones out."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._shared.lines import peeked, to_file, to_standard_output
from regard.cli._shared.options import Beam, Int8, NoRepeatNgram, Output

if TYPE_CHECKING:
    from regard.data.tokenizers.tokenizer import Tokenizer
    from regard.decoding.config import DecodingConfig
    from regard.predictors.summarizer import Summarizer, Summary

STANDARD_INPUT = Path("-")


def summarize(
    run: Annotated[Path, typer.Argument(help="Run folder of a summarizer.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text files, one text a line; - is standard input.")
    ] = None,
    whole_file: Annotated[
        bool, typer.Option("--whole-file", help="Read each file as one text, its lines joined.")
    ] = False,
    beam: Beam = 1,
    n_best: Annotated[int, typer.Option(min=1, help="Number of summaries of each text.")] = 1,
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Print the text number and the score before each summary."),
    ] = False,
    length_penalty: Annotated[
        float,
        typer.Option(
            min=0,
            help="Length normalization exponent of beam search; more favors longer texts.",
        ),
    ] = 1.0,
    no_repeat_ngram: NoRepeatNgram = 0,
    suppress_phrase: Annotated[
        list[str] | None,
        typer.Option(help="Phrase that no summary may contain; may be repeated."),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Text that every summary starts with.")] = "",
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum tokens of a summary (default: those of the longest in training)."
        ),
    ] = None,
    int8: Int8 = False,
    output: Output = None,
) -> None:
    """Summarize texts: one summary for each text, in the same order.

    A text that is too long for the model is refused; a model trained on the first tokens of texts
    (task.source) reads those and reports it. With --output, an interrupted run resumes.
    """
    from regard.decoding.config import DecodingConfig
    from regard.errors import DataError
    from regard.loading import load_summarizer

    summarizer = load_summarizer(run, bits=8 if int8 else 32)
    search = DecodingConfig(
        beam=max(beam, n_best),
        n_best=n_best,
        length_penalty=length_penalty,
        no_repeat_ngram=no_repeat_ngram,
        return_scores=scores,
        suppress_phrases=[summarizer.tokenizer.encode(phrase) for phrase in suppress_phrase or []],
    )
    job = _Job(summarizer, search, prefix, max_tokens, scores, whole_file)
    given = files or [STANDARD_INPUT]
    seen, texts = peeked(_texts(given, whole_file))
    if not seen:
        where = " ".join(map(str, files)) if files else "standard input"
        raise DataError(f"{where}: there is no text to summarize.")
    if output is None:
        return to_standard_output(job, texts)
    return to_file(job, texts, output, run, [] if STANDARD_INPUT in given else given)


class _Job:
    """A question to the summarizer, the same for every text."""

    title, unit = "Summarizing", "texts"

    def __init__(
        self,
        summarizer: "Summarizer",
        search: "DecodingConfig",
        prefix: str,
        tokens: int | None,
        scores: bool,
        whole: bool,
    ) -> None:
        self.summarizer, self.search = summarizer, search
        self.prefix, self.tokens, self.scores, self.whole = prefix, tokens, scores, whole
        self.done = 0  # texts

    def __call__(self, texts: list[str]) -> list[str]:
        found = self.summarizer.candidates(
            texts,
            decoding=self.search,
            prefix=self.prefix,
            max_tokens=self.tokens,
            notice=lambda said: typer.echo(said, err=True),
            names=[f"text {self.done + number}" for number in range(1, len(texts) + 1)],
        )
        printed = [
            "\n".join(self._shown(number, each) for each in candidates)
            for number, candidates in enumerate(found, start=self.done + 1)
        ]
        self.done += len(texts)
        return printed

    def _shown(self, number: int, each: "Summary") -> str:
        fields = [str(number), f"{each.score:.4f}"] if self.scores else []
        return "\t".join([*fields, each.text.replace("\n", " ")])  # a line for a summary

    @property
    def tokenizer(self) -> "Tokenizer":
        return self.summarizer.tokenizer

    def plain(self) -> Any:
        return [repr(self.search), self.prefix, self.tokens, self.scores, self.whole]


def _texts(files: Sequence[Path], whole: bool) -> Iterator[str]:
    from regard.data.sources.lines import stream_text

    for file in files:
        if whole:
            yield " ".join(filter(None, map(str.strip, stream_text(file))))
        else:
            yield from stream_text(file)
