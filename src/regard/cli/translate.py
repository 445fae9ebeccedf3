"""regard translate: translate text, one line out for each line in."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._shared.files import (
    STANDARD_INPUT,
    TEXT_OR_FILE,
    check_output,
    is_read_once,
    texts_or_file,
)
from regard.cli._shared.options import Int4, Int8, NoRepeatNgram, Output, bits_of
from regard.cli._shared.seq2seq import (
    DecodingOptions,
    TextCommand,
    require_text,
    resumable_output,
    to_file,
    to_standard_output,
    warn_of_doubts,
)
from regard.cli._shared.streams import echo

if TYPE_CHECKING:
    from regard.predictors.translator import Translation, Translator


def translate(
    run: Annotated[Path, typer.Argument(help="Run folder of a translator.")],
    text: Annotated[
        list[str] | None,
        typer.Argument(
            help="Texts, or one file with a text a line; - is standard input.",
            metavar=TEXT_OR_FILE,
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Target language (default: the other one).")
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Beam width; 1 is greedy decoding (default: the model's task.beam, or 1).",
        ),
    ] = None,
    n_best: Annotated[
        int, typer.Option(min=1, help="Number of different translations of each line.")
    ] = 1,
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
            min=1,
            help="Maximum tokens of a translation, required text included (default: twice the "
            "source's plus 10, plus the required text).",
        ),
    ] = None,
    align: Annotated[
        bool, typer.Option("--align", help="Append the word alignment after a tab: 0-0 1-2 …")
    ] = False,
    int8: Int8 = False,
    int4: Int4 = False,
    output: Output = None,
) -> None:
    """Translate texts, or a file: as many lines out as in, in the same order.

    With --output, an interrupted translation resumes. In a gettext catalog (FILE.po) the messages
    without a translation are translated, with all their placeholders.
    """
    from regard.data.sources.lines import stream_text

    options = DecodingOptions(
        beam,
        n_best,
        scores,
        length_penalty,
        no_repeat_ngram,
        suppress_phrase or [],
        early_stopping,
        beam_groups,
    )
    constraints = {
        "require_phrases": require_phrase or [],
        "prefix": prefix,
        "keep_placeholders": keep_placeholders,
        "max_tokens": max_tokens,
    }
    bits = bits_of(int8, int4)
    texts, file = texts_or_file(text or [])
    is_catalog = file.suffix == ".po"
    if is_catalog:
        _refuse_columns(options, align)
        check_output(output, run)  # it may be the catalog itself, which is read whole
    target = (
        None
        if output is None or is_catalog
        else resumable_output(output, run, [file], options, [to, constraints, align, bits])
    )

    from regard.loading import load_translator

    translator = load_translator(run, bits=bits)
    command = _Translate(translator, to, options, constraints, align)
    if is_catalog:
        return _translate_catalog(command, file, output)
    from_stdin = file == STANDARD_INPUT and not texts
    if from_stdin and target is None and sys.stdin.isatty():
        return _translate_interactively(command)
    lines = require_text(
        iter(texts) if texts else stream_text(file),
        "standard input" if from_stdin else "the text" if texts else file,
        "translate",
    )
    if target is None:
        return to_standard_output(command, lines)
    total = len(texts) or (None if is_read_once(file) else sum(1 for _ in stream_text(file)))
    return to_file(command, lines, target, total)


def _refuse_columns(options: DecodingOptions, align: bool) -> None:
    """Refuse options that add lines or columns, for which a catalog has no room."""
    from regard.errors import ConfigError

    if options.n_best > 1 or options.scores or align:
        raise ConfigError(
            "--n-best, --scores and --align have no effect on a catalog (.po): leave them out."
        )


class _Translate(TextCommand):
    """A translator and its options, the same for every line."""

    title, unit = "Translating", "lines"

    def __init__(
        self,
        translator: "Translator",
        to: str | None,
        options: DecodingOptions,
        constraints: dict[str, Any],
        align: bool,
    ) -> None:
        super().__init__(translator.tokenizer, options, translator.beam)
        self.translator, self.to, self.align = translator, to, align
        self.constraints = constraints

    def doubt(self, text: str) -> str | None:
        """Return which other language the text is in, or what training has never seen of it."""
        from regard.data.languages import NAMES, describe_language, recognize_language

        translator = self.translator
        to = self.to or translator.default_target
        sources = {source for source, target in translator.directions if to in (None, target)}
        if sources and sources <= NAMES.keys():
            ids = translator.tokenizer.encode(text)
            language = recognize_language([text]) or (
                translator.language_identifier.identify_surely(ids)
            )
            if language is not None and language not in sources:
                known = " or ".join(describe_language(source) for source in sorted(sources))
                return f"looks like {describe_language(language)}, not {known}"
        return None if translator.handling.restore_lost else super().doubt(text)

    def candidates(self, texts: list[str], names: list[str]) -> "list[list[Translation]]":
        return self.translator.candidates(
            texts, self.to, decoding=self.decoding, names=names, **self.constraints
        )

    def columns(self, candidate: "Translation") -> list[str]:
        if not self.align:
            return super().columns(candidate)
        from regard.insight.alignment import align_parts

        alignment = align_parts(self.translator, candidate, self.to)
        return [*super().columns(candidate), " ".join(map(str, alignment))]


def _translate_catalog(command: _Translate, file: Path, output: Path | None) -> None:
    """Translate the messages of a gettext catalog that have no translation."""
    from regard.atomic import write_atomic
    from regard.cli._shared.progress import progress_bar
    from regard.data.sources.gettext import Catalog
    from regard.predictors.gettext import translate_catalog

    catalog = Catalog(file)
    constraints = {**command.constraints, "keep_placeholders": True}
    with progress_bar("Translating", None, "lines") as advance:

        def translate(lines: Sequence[str]) -> list[str]:
            return command.translator.translate(
                lines, command.to, on_progress=advance, decoding=command.decoding, **constraints
            )

        translated, incomplete = translate_catalog(catalog, translate)
    if output is None:
        sys.stdout.write(translated.decode("utf-8", "surrogateescape"))
    else:
        write_atomic(output, translated)
    for message in incomplete:
        echo(f"{file}: not translated, because a placeholder was lost: {message!r}", err=True)


def _translate_interactively(command: _Translate) -> None:
    """Translate lines as a person types them; a line with an error does not end the session."""
    from regard.data.sources.lines import decode_line
    from regard.errors import RegardError

    echo("Type a sentence and press Enter; Ctrl-D ends.", err=True)
    for number, typed in enumerate(sys.stdin.buffer, start=1):
        try:
            line = decode_line(typed.removesuffix(b"\n"), f"line {number}")
            texts = list(warn_of_doubts(command, iter([line])))
            for text in command(texts):
                echo(text)
        except RegardError as error:
            echo(f"regard: {error}", err=True)
