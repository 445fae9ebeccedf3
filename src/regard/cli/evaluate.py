"""regard evaluate: score a model on held-out data with the metrics of its task."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._shared.files import check_inputs, is_read_once
from regard.cli._shared.streams import echo

if TYPE_CHECKING:
    from regard.evaluation.texts import TextScores
    from regard.predictors.classifier import Classifier
    from regard.predictors.generator import TextGenerator
    from regard.predictors.summarizer import Summarizer
    from regard.predictors.translator import Translator
    from regard.training.reporting.progress import Reporter

MAX_CONFUSIONS = 10  # pairs of labels that are printed, the most frequent


class DocumentEnd(StrEnum):
    """The end of a document in a text file."""

    file = "file"
    line = "line"
    blank = "blank"


@dataclass(frozen=True)
class Options:
    """Data and options of the command; None for an option that was not given."""

    data: Sequence[Path]
    context: int | None
    stride: int | None
    documents: DocumentEnd | None
    to: str | None
    beam: int | None
    lowercase: bool | None
    source: Sequence[str] | None

    def allow_only(self, predictor: str, *options: str) -> None:
        """Refuse all options but these, because they would have no effect."""
        from regard.errors import ConfigError

        for name, value in asdict(self).items():
            if name not in ("data", *options) and value is not None:
                raise ConfigError(f"--{name} has no effect on {predictor}: leave it out.")


@dataclass(frozen=True)
class Result:
    """Scores as plain data, and as rows to print."""

    scores: dict[str, Any]
    rows: Sequence[tuple[str, str]]


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Text files; for a translator or summarizer, pairs as in training, or two files; "
            "for a classifier, texts and labels as in training."
        ),
    ],
    context: Annotated[
        int | None, typer.Option(min=1, help="Maximum context in tokens (default: the model's).")
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(min=1, help="Stride of the context in tokens (default: the context)."),
    ] = None,
    documents: Annotated[
        DocumentEnd | None,
        typer.Option(help="End of a document: the end of the file, of each line, or a blank line."),
    ] = None,
    to: Annotated[str | None, typer.Option(help="Language of the translations.")] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            min=1, help="Beam width of a translator or summarizer (default: the model's, or 1)."
        ),
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option("--lowercase", help="Compute BLEU and chrF on lowercased text.")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="key=value setting of the file: columns=[0,2], header=true, kind=csv … (default: "
            "as in training); may be repeated."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all scores as JSON.")] = False,
) -> None:
    """Print perplexity of text, BLEU of translations, ROUGE of summaries, or accuracy of labels."""
    from regard.cli._shared.console import reporter
    from regard.errors import RunError

    check_inputs(*data)

    from regard.loading import load, noun_of

    loaded = load(run)
    options = Options(data, context, stride, documents, to, beam, lowercase, source)
    evaluators = _evaluators()
    if type(loaded) not in evaluators:
        raise RunError(f"{run}: there is no metric for {noun_of(loaded)}.")
    result = evaluators[type(loaded)](loaded, options, reporter())
    if as_json:
        echo(json.dumps(result.scores, indent=2))
        return
    width = max(len(name) for name, _ in result.rows)
    for name, value in result.rows:
        echo(f"{name:{width}}  {value}")


def _evaluators() -> "dict[type, Callable[[Any, Options, Reporter], Result]]":
    """Return the evaluation function of each predictor class."""
    from regard.predictors.classifier import Classifier
    from regard.predictors.generator import TextGenerator
    from regard.predictors.summarizer import Summarizer
    from regard.predictors.translator import Translator

    return {
        TextGenerator: _evaluate_language_model,
        Translator: _evaluate_translator,
        Summarizer: _evaluate_summarizer,
        Classifier: _evaluate_classifier,
    }


def _evaluate_language_model(
    generator: "TextGenerator", options: Options, report: "Reporter"
) -> Result:
    from regard.data.records import require_records
    from regard.data.sources.text import Spec as Text
    from regard.errors import DataError
    from regard.evaluation.language_model import Piece, perplexity
    from regard.predictors.reading import repaired

    options.allow_only("a language model", "context", "stride", "documents")
    for path in options.data:
        if is_read_once(path):
            raise DataError(f"{path}: is read twice, and can be read only once; give a file.")
    text = Text(
        path=tuple(options.data),
        documents=(options.documents or DocumentEnd.file).value,
        encoding=(generator.file_format or {}).get("encoding"),
    )
    with report.busy("Reading …"):
        characters = sum(len(record.texts[0]) for record in require_records(text.records()))
    if not characters:
        raise DataError(f"{', '.join(map(str, options.data))}: there is no text in it.")
    with report.bar("Evaluating", characters, "characters") as advance:

        def pieces() -> Iterator[Piece]:
            for record in require_records(text.records()):
                yield Piece(repaired(generator, record).texts[0], record.ends_document)
                advance(len(record.texts[0]))

        perplexities = perplexity(generator, pieces(), options.context, options.stride)
    if not perplexities.lossless:
        report.say(
            "Note: this tokenizer does not reproduce the text exactly (it collapses spaces or has "
            "unknown characters): bits and words count the text, tokens what is left of it."
        )
    rows = [
        ("loss per token", f"{perplexities.loss:.4f}"),
        ("perplexity", f"{perplexities.perplexity:,.4f}"),
        ("accuracy of the next token", f"{perplexities.accuracy:.2%}"),
        ("bits per character", f"{perplexities.bits_per_character:.4f}"),
        ("bits per byte", f"{perplexities.bits_per_byte:.4f}"),
        ("perplexity of a word", f"{perplexities.word_perplexity:,.2f}"),
        ("… of a word or line end", f"{perplexities.word_or_line_perplexity:,.2f}"),
        ("context, stride", f"{perplexities.context:,}, {perplexities.stride:,}"),
        ("counted", perplexities.counted),
    ]
    return Result(perplexities.to_plain(), rows)


def _evaluate_translator(translator: "Translator", options: Options, report: "Reporter") -> Result:
    from regard.evaluation.texts import score_translations

    options.allow_only("a translator", "to", "beam", "lowercase", "source")
    to = options.to or translator.default_target
    pairs = _pairs(translator, options.data, options.source or (), to)
    sources, references = zip(*pairs, strict=True)
    beam = options.beam or translator.beam
    with report.bar("Translating", len(pairs), "pairs") as advance:
        outputs = translator.translate(sources, to, advance, beam=beam)
    text_scores = score_translations(outputs, references, bool(options.lowercase))
    rows = [
        *_text_scores(text_scores),
        ("counted", f"{text_scores.count:,} pairs, a beam of {beam}"),
    ]
    return Result({**text_scores.to_plain("pairs"), "beam": beam}, rows)


def _evaluate_summarizer(summarizer: "Summarizer", options: Options, report: "Reporter") -> Result:
    from regard.evaluation.texts import score_summaries
    from regard.evaluation.tokens import loss_scores

    options.allow_only("a summarizer", "beam", "source")
    pairs = _pairs(summarizer, options.data, options.source or ())
    texts, references = zip(*pairs, strict=True)
    beam = options.beam or 1
    with report.busy("Scoring …"):
        scores = summarizer.score(texts, references)
    losses = loss_scores(
        -sum(score.total for score in scores) / sum(len(score.token_log_probs) for score in scores)
    )
    with report.bar("Summarizing", len(texts), "texts") as advance:
        outputs = summarizer.summarize(texts, advance, beam=beam)
    text_scores = score_summaries(outputs, [[reference] for reference in references])
    rows = [
        *_text_scores(text_scores),
        ("perplexity of a token", f"{losses['perplexity']:,.4f}"),
        ("counted", f"{text_scores.count:,} texts, a beam of {beam}"),
    ]
    if summarizer.truncate_source is not None:
        rows.append(("read", f"the first {summarizer.truncate_source:,} tokens of each text"))
    return Result({**text_scores.to_plain("texts"), **losses, "beam": beam}, rows)


def _text_scores(scores: "TextScores") -> Iterator[tuple[str, str]]:
    """Yield a row for each metric, with its signature if it has one."""
    from regard.evaluation.base import metric_named

    for name, value in scores.values.items():
        metric, signature = metric_named(name), scores.signatures.get(name)
        shown = metric.show(value, digits=2)
        yield metric.label, f"{shown}  ({signature})" if signature else shown


def _pairs(
    predictor: "Translator | Summarizer",
    data: Sequence[Path],
    changes: Sequence[str],
    to: str | None = None,
) -> list[tuple[str, ...]]:
    """Read pairs from a file as in training, or from two parallel files."""
    from regard.errors import ConfigError, DataError
    from regard.predictors.reading import pair_lines

    if len(data) > 2:
        raise ConfigError("give one file of pairs with a tab between them, or two parallel files.")
    records = pair_lines(predictor, data[0], *data[1:], changes=changes, to=to)
    pairs = [record.texts for record in records]
    if not pairs:
        raise DataError(f"{data[0]}: there are no pairs in it.")
    return pairs


def _evaluate_classifier(classifier: "Classifier", options: Options, report: "Reporter") -> Result:
    from regard.evaluation.base import metrics_of
    from regard.evaluation.classification import LabelMetric
    from regard.predictors.classifier_evaluation import evaluate_classifier, labeled_lines

    options.allow_only("a classifier", "source")
    changes = options.source or ()
    lines = chain.from_iterable(labeled_lines(classifier, path, changes) for path in options.data)
    with report.busy("Classifying …"):
        results = evaluate_classifier(classifier, lines)
    rows = [
        *(
            (metric.label, metric.show(metric.of_report(results), max(metric.digits, 2)))
            for metric in metrics_of(LabelMetric)
        ),
        ("95 % interval of the accuracy", f"{results.low:.1%} to {results.high:.1%}"),
        *(
            (f"F1 of {label.label}", f"{label.f1:.2%}  ({label.texts:,})")
            for label in results.labels
        ),
        *(
            (f"{label}, predicted as {predicted}", f"{texts:,}")
            for label, predicted, texts in results.most_confused()[:MAX_CONFUSIONS]
        ),
        ("counted", f"{results.texts:,} texts"),
    ]
    return Result(results.scores, rows)
