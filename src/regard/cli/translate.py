"""regard translate: lines in, lines out."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._shared.lines import peeked, to_file, to_standard_output, told
from regard.cli._shared.options import Beam, Int8, NoRepeatNgram, Output

if TYPE_CHECKING:
    from regard.data.tokenizers.tokenizer import Tokenizer
    from regard.decoding.config import DecodingConfig
    from regard.predictors.translator import Translation, Translator


def translate(
    run: Annotated[Path, typer.Argument(help="Run folder of a translator.")],
    file: Annotated[
        Path, typer.Argument(help="Text file, one sentence a line; - is standard input.")
    ] = Path("-"),
    to: Annotated[
        str | None, typer.Option(help="Target language (default: the other one).")
    ] = None,
    beam: Beam = 1,
    n_best: Annotated[int, typer.Option(min=1, help="Number of translations of each line.")] = 1,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="Print the line number and the score before each translation."
        ),
    ] = False,
    length_penalty: Annotated[
        float,
        typer.Option(
            min=0,
            help="Length normalization exponent of beam search; more favors longer texts.",
        ),
    ] = 1.0,
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping", help="End beam search after as many hypotheses as the beam is wide."
        ),
    ] = False,
    beam_groups: Annotated[
        int, typer.Option(min=1, help="Number of groups of diverse beam search; 1: off.")
    ] = 1,
    no_repeat_ngram: NoRepeatNgram = 0,
    require_phrase: Annotated[
        list[str] | None,
        typer.Option(help="Phrase that every translation must contain; may be repeated."),
    ] = None,
    suppress_phrase: Annotated[
        list[str] | None,
        typer.Option(help="Phrase that no translation may contain; may be repeated."),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Text that every translation starts with.")] = "",
    keep_placeholders: Annotated[
        bool,
        typer.Option(
            "--keep-placeholders", help="Copy numbers, links, {variables} and <markup> unchanged."
        ),
    ] = False,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum tokens of a translation (default: twice the source's, plus 10)."
        ),
    ] = None,
    align: Annotated[
        bool, typer.Option("--align", help="Append the word alignment after a tab: 0-0 1-2 …")
    ] = False,
    int8: Int8 = False,
    output: Output = None,
) -> None:
    """Translate text: as many lines out as in, in the same order.

    With --output, an interrupted translation resumes. In a gettext catalog (FILE.po) the messages
    without a translation are translated, with all their placeholders.
    """
    from regard.data.sources.lines import stream_text
    from regard.decoding.config import DecodingConfig
    from regard.errors import DataError
    from regard.loading import load_translator

    translator = load_translator(run, bits=8 if int8 else 32)
    search = DecodingConfig(
        beam=max(beam, n_best),
        n_best=n_best,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        beam_groups=beam_groups,
        no_repeat_ngram=no_repeat_ngram,
        return_scores=scores,
        suppress_phrases=[translator.tokenizer.encode(phrase) for phrase in suppress_phrase or []],
    )
    wishes = {
        "require_phrases": require_phrase or [],
        "prefix": prefix,
        "keep_placeholders": keep_placeholders,
        "max_tokens": max_tokens,
    }
    job = _Job(translator, to, search, wishes, scores, align)
    if file.suffix == ".po":
        return _to_catalog(job, file, output)
    if str(file) == "-" and output is None and sys.stdin.isatty():
        return _converse(job)
    seen, lines = peeked(stream_text(file))
    if not seen:
        where = "standard input" if str(file) == "-" else file
        raise DataError(f"{where}: there is no text to translate.")
    if output is None:
        return to_standard_output(job, lines)
    if str(file) == "-":
        return to_file(job, lines, output, run)
    return to_file(job, lines, output, run, [file], sum(1 for _ in stream_text(file)))


class _Job:
    """A question to the translator, the same for every line."""

    title, unit = "Translating", "lines"

    def __init__(
        self,
        translator: "Translator",
        to: str | None,
        search: "DecodingConfig",
        wishes: dict[str, Any],
        scores: bool,
        align: bool,
    ) -> None:
        self.translator = translator
        self.to, self.search, self.scores, self.align = to, search, scores, align
        self.wishes = wishes  # of the translator: what must be said, and how much may be
        self.done = 0  # lines

    def __call__(self, lines: list[str]) -> list[str]:
        """What to print for each line: one text, of several lines where several are asked for."""
        found = self.translator.candidates(lines, self.to, decoding=self.search, **self.wishes)
        texts = []
        for number, candidates in enumerate(found, start=self.done + 1):
            texts.append("\n".join(self._shown(number, each) for each in candidates))
        self.done += len(lines)
        return texts

    def _shown(self, number: int, each: "Translation") -> str:
        fields = [str(number), f"{each.score:.4f}"] if self.scores else []
        fields.append(each.text.replace("\n", " "))  # a line for a line
        if self.align:
            from regard.insight.alignment import align_parts

            fields.append(" ".join(map(str, align_parts(self.translator, each, self.to))))
        return "\t".join(fields)

    @property
    def tokenizer(self) -> "Tokenizer":
        return self.translator.tokenizer

    def plain(self) -> Any:
        """All that the answers depend on but the model and the text."""
        return [self.to, repr(self.search), self.wishes, self.scores, self.align]


def _to_catalog(job: _Job, file: Path, output: Path | None) -> None:
    from regard.atomic import write_atomic
    from regard.cli._shared.console import reporter
    from regard.data.sources.gettext import Catalog
    from regard.predictors.gettext import fill

    job.wishes["keep_placeholders"] = True
    with reporter().bar("Translating", None, "lines") as show:

        def translate(lines: Sequence[str]) -> list[str]:
            return job.translator.translate(
                lines, job.to, on_progress=show, decoding=job.search, **job.wishes
            )

        text, lost = fill(Catalog(file), translate)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_atomic(output, text.encode())
    for left in lost:
        typer.echo(f"{file}: left open, because a part was lost: {left!r}", err=True)


def _converse(job: _Job) -> None:
    """A person types: each line is answered at once, and a line that cannot be is not the end."""
    from regard.errors import DataError

    typer.echo("Type a sentence and press Enter; Ctrl-D ends.", err=True)
    for line in sys.stdin:
        try:
            for text in job(list(told(job, iter([line.rstrip("\n")])))):
                typer.echo(text)
        except DataError as error:
            typer.echo(f"regard: {error}", err=True)
