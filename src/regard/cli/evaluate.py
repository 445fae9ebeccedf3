"""regard evaluate: how good a model is on text that it has not seen."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.evaluation.texts import TextScores
    from regard.predictors.classifier import Classifier
    from regard.predictors.generator import TextGenerator
    from regard.predictors.summarizer import Summarizer
    from regard.predictors.translator import Translator
    from regard.training.reporting.progress import Reporter

MISTAKES = 10  # kinds of them that are shown, the commonest


class Ends(StrEnum):
    file = "file"
    line = "line"
    blank = "blank"


@dataclass(frozen=True)
class Asked:
    """The data and the options of the command: None where one was not given."""

    data: Sequence[Path]
    context: int | None
    stride: int | None
    documents: Ends | None
    to: str | None
    beam: int | None
    lowercase: bool | None
    source: Sequence[str] | None

    def only(self, whose: str, *options: str) -> None:
        """Refuse all other options: they would do nothing."""
        from regard.errors import ConfigError

        for name, value in asdict(self).items():
            if name not in ("data", *options) and value is not None:
                raise ConfigError(f"--{name} does nothing for {whose}: leave it out.")


@dataclass(frozen=True)
class Verdict:
    """What was found: as plain data, and as a person reads it."""

    figures: dict[str, Any]
    rows: Sequence[tuple[str, str]]


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Text; for a translator or summarizer, pairs with a tab between, or two files; "
            "for a classifier, texts and labels with a tab between."
        ),
    ],
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens looked back at, at most; the model's own.")
    ] = None,
    stride: Annotated[
        int | None, typer.Option(min=1, help="How far the context slides; by all of it.")
    ] = None,
    documents: Annotated[
        Ends | None, typer.Option(help="Where a document ends: with its file, or at …")
    ] = None,
    to: Annotated[str | None, typer.Option(help="The language of the translations.")] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Of the translator or summarizer; 1.")
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option("--lowercase", help="Compute BLEU and chrF on lowercased text.")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(help="For a classifier: key=value of its source, not as in training."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """Perplexity of a text; BLEU of translations; ROUGE of summaries; accuracy and F1 of labels."""
    from regard.cli._shared.console import reporter
    from regard.errors import RunError
    from regard.loading import load, noun_of

    loaded = load(run)
    asked = Asked(data, context, stride, documents, to, beam, lowercase, source)
    judges = _judges()
    if type(loaded) not in judges:
        raise RunError(f"{run}: there is no measure yet for {noun_of(loaded)}.")
    verdict = judges[type(loaded)](loaded, asked, reporter())
    if as_json:
        typer.echo(json.dumps(verdict.figures, indent=2))
        return
    width = max(len(name) for name, _ in verdict.rows)
    for name, value in verdict.rows:
        typer.echo(f"{name:{width}}  {value}")


def _judges() -> "dict[type, Callable[[Any, Asked, Reporter], Verdict]]":
    """What judges what `regard.load` gives, one function each."""
    from regard.predictors.classifier import Classifier
    from regard.predictors.generator import TextGenerator
    from regard.predictors.summarizer import Summarizer
    from regard.predictors.translator import Translator

    return {
        TextGenerator: _foretelling,
        Translator: _translating,
        Summarizer: _summarizing,
        Classifier: _labelling,
    }


def _foretelling(writer: "TextGenerator", asked: Asked, report: "Reporter") -> Verdict:
    from regard.data.records import require_records
    from regard.data.sources.text import Spec as Text
    from regard.errors import DataError
    from regard.evaluation.language_model import Piece, perplexity

    asked.only("a language model", "context", "stride", "documents")
    text = Text(path=tuple(asked.data), documents=(asked.documents or Ends.file).value)
    with report.busy("Reading …"):
        characters = sum(len(record.texts[0]) for record in require_records(text.records()))
    if not characters:
        raise DataError(f"{', '.join(map(str, asked.data))}: there is no text in it.")
    with report.bar("Evaluating", characters, "characters") as advance:

        def pieces() -> Iterator[Piece]:
            for record in require_records(text.records()):
                yield Piece(record.texts[0], record.ends_document)
                advance(len(record.texts[0]))

        found = perplexity(writer, pieces(), asked.context, asked.stride)
    if not found.lossless:
        report.say(
            "Note: this tokeniser does not give the text back as it was (it collapses spaces, or "
            "does not know all of it): bits and words are of the text, tokens of what is left."
        )
    figures = [
        ("loss per token", f"{found.loss:.4f}"),
        ("perplexity", f"{found.perplexity:,.4f}"),
        ("next tokens right", f"{found.accuracy:.2%}"),
        ("bits per character", f"{found.bits_per_character:.4f}"),
        ("bits per byte", f"{found.bits_per_byte:.4f}"),
        ("perplexity of a word", f"{found.word_perplexity:,.2f}"),
        ("… of a word or a line's end", f"{found.word_or_line_perplexity:,.2f}"),
        ("context, stride", f"{found.context:,}, {found.stride:,}"),
        ("counted", found.counted),
    ]
    return Verdict(found.to_plain(), figures)


def _translating(translator: "Translator", asked: Asked, report: "Reporter") -> Verdict:
    from regard.evaluation.texts import score_translations

    asked.only("a translator", "to", "beam", "lowercase")
    pairs = _pairs(asked.data)
    sources, references = zip(*pairs, strict=True)
    beam = asked.beam or 1
    with report.bar("Translating", len(pairs), "pairs") as advance:
        outputs = translator.translate(sources, asked.to, advance, beam=beam)
    found = score_translations(outputs, references, bool(asked.lowercase))
    figures = [
        *_text_scores(found),
        ("counted", f"{found.count:,} pairs, a beam of {beam}"),
    ]
    return Verdict({**found.to_plain("pairs"), "beam": beam}, figures)


def _summarizing(summarizer: "Summarizer", asked: Asked, report: "Reporter") -> Verdict:
    from regard.evaluation.texts import score_summaries
    from regard.evaluation.tokens import loss_scores

    asked.only("a summarizer", "beam")
    texts, references = zip(*_pairs(asked.data), strict=True)
    beam = asked.beam or 1
    with report.busy("Scoring …"):
        scores = summarizer.score(texts, references)
    losses = loss_scores(
        -sum(each.total for each in scores) / sum(len(each.token_log_probs) for each in scores)
    )
    with report.bar("Summarizing", len(texts), "texts") as advance:
        outputs = summarizer.summarize(texts, advance, beam=beam)
    found = score_summaries(outputs, [[reference] for reference in references])
    figures = [
        *_text_scores(found),
        ("perplexity of a token", f"{losses['perplexity']:,.4f}"),
        ("counted", f"{found.count:,} texts, a beam of {beam}"),
    ]
    if summarizer.truncate_source is not None:
        figures.append(("read", f"the first {summarizer.truncate_source:,} tokens of each text"))
    return Verdict({**found.to_plain("texts"), **losses, "beam": beam}, figures)


def _text_scores(scores: "TextScores") -> Iterator[tuple[str, str]]:
    """A row for each metric, with its signature if it has one."""
    from regard.evaluation.base import metric_named

    for name, value in scores.values.items():
        metric, signature = metric_named(name), scores.signatures.get(name)
        shown = metric.show(value, digits=2)
        yield metric.label, f"{shown}  ({signature})" if signature else shown


def _pairs(data: Sequence[Path]) -> list[tuple[str, ...]]:
    """Of a file with a tab between the two of a pair, or of two files with a line for each."""
    from regard.data.records import require_records
    from regard.data.sources.files import Spec as TwoFiles
    from regard.data.sources.tsv import read_columns
    from regard.errors import ConfigError, DataError

    if len(data) > 2:
        raise ConfigError("give one file of pairs with a tab between, or two with a line for each.")
    if len(data) == 1:
        lines = read_columns(data[0], (0, 1))
    else:
        source, target = data
        two = TwoFiles(source=source, target=target, languages=("source", "target"))
        lines = two.records()
    pairs = [record.texts for record in require_records(lines)]
    if not pairs:
        raise DataError(f"{data[0]}: there are no pairs in it.")
    return pairs


def _labelling(labeller: "Classifier", asked: Asked, report: "Reporter") -> Verdict:
    from regard.evaluation.base import metrics_of
    from regard.evaluation.classification import LabelMetric
    from regard.predictors.classifier_evaluation import evaluate_classifier, labeled_lines

    asked.only("a classifier", "source")
    changes = asked.source or ()
    lines = chain.from_iterable(labeled_lines(labeller, path, changes) for path in asked.data)
    with report.busy("Classifying …"):
        found = evaluate_classifier(labeller, lines)
    figures = [
        *(
            (metric.label, metric.show(metric.of_report(found), max(metric.digits, 2)))
            for metric in metrics_of(LabelMetric)
        ),
        ("95 % interval of the accuracy", f"{found.low:.1%} to {found.high:.1%}"),
        *((f"F1 of {each.label}", f"{each.f1:.2%}  ({each.texts:,})") for each in found.labels),
        *(
            (f"{had}, taken for {given}", f"{texts:,}")
            for had, given, texts in found.most_confused()[:MISTAKES]
        ),
        ("counted", f"{found.texts:,} texts"),
    ]
    return Verdict(found.scores, figures)
