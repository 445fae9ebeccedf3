"""regard summarize: summarize texts, one summary for each."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli._shared.files import STANDARD_INPUT, check_inputs
from regard.cli._shared.options import Int4, Int8, NoRepeatNgram, Output, bits_of
from regard.cli._shared.seq2seq import (
    DecodingOptions,
    TextCommand,
    require_text,
    resumable_output,
    to_file,
    to_standard_output,
)
from regard.cli._shared.streams import echo

if TYPE_CHECKING:
    from regard.predictors.summarizer import Summarizer, Summary


def summarize(
    run: Annotated[Path, typer.Argument(help="Run folder of a summarizer.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text files, one text a line; - is standard input.")
    ] = None,
    whole_file: Annotated[
        bool, typer.Option("--whole-file", help="Read each file as one text, its lines joined.")
    ] = False,
    beam: Annotated[int, typer.Option(min=1, help="Beam width; 1 is greedy decoding.")] = 1,
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
    int4: Int4 = False,
    output: Output = None,
) -> None:
    """Summarize texts: one summary for each text, in the same order.

    A text that is too long for the model is refused; a model trained on the first tokens of texts
    (task.source) reads those and reports it. With --output, an interrupted run resumes.
    """

    options = DecodingOptions(
        beam, n_best, scores, length_penalty, no_repeat_ngram, suppress_phrase or []
    )
    inputs = files or [STANDARD_INPUT]
    check_inputs(*inputs)
    target = (
        None
        if output is None
        else resumable_output(output, run, inputs, options, [prefix, max_tokens, whole_file])
    )

    from regard.loading import load_summarizer

    summarizer = load_summarizer(run, bits=bits_of(int8, int4))
    command = _Summarize(summarizer, options, prefix, max_tokens)
    source = " ".join(map(str, files)) if files else "standard input"
    texts = require_text(_texts(inputs, whole_file), source, "summarize")
    if target is None:
        return to_standard_output(command, texts)
    return to_file(command, texts, target)


class _Summarize(TextCommand):
    """A summarizer and its options, the same for every text."""

    title, unit = "Summarizing", "texts"

    def __init__(
        self,
        summarizer: "Summarizer",
        options: DecodingOptions,
        prefix: str,
        max_tokens: int | None,
    ) -> None:
        super().__init__(summarizer.tokenizer, options)
        self.summarizer, self.prefix = summarizer, prefix
        self.max_tokens = max_tokens

    def candidates(self, texts: list[str], names: list[str]) -> "list[list[Summary]]":
        return self.summarizer.candidates(
            texts,
            decoding=self.decoding,
            prefix=self.prefix,
            max_tokens=self.max_tokens,
            notice=lambda message: echo(message, err=True),
            names=names,
        )


def _texts(files: Sequence[Path], whole_file: bool) -> Iterator[str]:
    from regard.data.sources.lines import stream_text

    for file in files:
        if whole_file:
            yield " ".join(filter(None, map(str.strip, stream_text(file))))
        else:
            yield from stream_text(file)
