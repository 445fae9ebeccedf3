"""regard classify: label texts with a classifier or, zero-shot, with a language model."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._shared.files import STANDARD_INPUT, check_inputs
from regard.cli._shared.options import Int4, Int8, bits_of
from regard.cli._shared.streams import echo

if TYPE_CHECKING:
    from regard.data.sources.labels import LabelsSpec
    from regard.predictors.classifier import Prediction

TABLES = (".tsv", ".csv", ".jsonl")  # endings of files that are read as in training

# (lines, sentences with their trees, or records; their names in errors) → predictions
Predict = Callable[[list[Any], list[str]], "list[Prediction]"]


def classify(
    run: Annotated[Path, typer.Argument(help="Run folder of a classifier or a language model.")],
    file: Annotated[
        Path,
        typer.Argument(
            help="Text file, one text a line (pairs: a tab between); a table (.tsv, .csv, .jsonl), "
            "read as in training; sentences with trees (.conllu); - is standard input."
        ),
    ] = Path("-"),
    text: Annotated[
        list[str] | None, typer.Option(help="A text, instead of a file; may be repeated.")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="key=value setting of FILE as a table: columns=[0,2], header=true … (default: as "
            "in training); may be repeated."
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="Print every label with its probability, most likely first."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    threshold: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Multi-label: print labels with at least this probability."
        ),
    ] = 0.5,
    template: Annotated[
        str | None,
        typer.Option(help="Zero-shot: the prompt of the language model: '{text} It was'."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="Zero-shot: a label and its continuation: good=' great'; may be repeated."
        ),
    ] = None,
    int8: Int8 = False,
    int4: Int4 = False,
) -> None:
    """Label texts: as many lines out as in, each a label, a tab and its probability.

    An empty line gives an empty line; the labels of a table are not read. A language model chooses
    the label whose continuation is most likely (zero-shot): give a --template and at least two
    --label.
    """
    from regard.errors import ConfigError

    if source and (text or file == STANDARD_INPUT):
        raise ConfigError("--source is for a FILE: give one, or leave it out.")
    if text and file != STANDARD_INPUT:
        raise ConfigError("give --text or a FILE, not both.")
    check_inputs(file)

    from regard.loading import load

    loaded = load(run, bits=bits_of(int8, int4))
    predict, written = _predictor(loaded, run, template, label or [])
    format_prediction = _Formatter(written, every, as_json, threshold)
    if not text and file == STANDARD_INPUT and sys.stdin.isatty():
        _interactive(predict, format_prediction)
    else:
        lines = iter(text) if text else _read(loaded, file, source or ())
        _label_lines(lines, predict, format_prediction)


def _read(loaded: Any, file: Path, changes: Sequence[str]) -> Iterator[Any]:
    """Yield sentences with trees, the texts of a table as in training, or lines."""
    from regard.data.filters.quality import fixed_text
    from regard.data.sources.base import LabeledSpec
    from regard.data.sources.conllu import is_conllu, parsed_sentences
    from regard.data.sources.lines import stream_text
    from regard.errors import ConfigError
    from regard.predictors.classifier import Classifier
    from regard.predictors.classifier_evaluation import labeled_source
    from regard.predictors.reading import require_readable

    if changes and not isinstance(loaded, Classifier):
        raise ConfigError("--source is for a classifier; a language model reads one text a line.")
    if is_conllu(file):
        return parsed_sentences(file)
    is_table = file.name.removesuffix(".gz").endswith(TABLES)
    if not changes and not (is_table and isinstance(loaded, Classifier)):
        texts = stream_text(file, (loaded.file_format or {}).get("encoding"))
        return map(fixed_text, texts) if loaded.fix_encoding else texts
    source = labeled_source(loaded, file, changes)
    if not isinstance(source, LabeledSpec) or source.num_texts != loaded.num_texts:
        raise ConfigError(f"source: kind {source.kind()} does not read the texts of this model.")
    return require_readable(loaded, source.unlabeled(), source)


def _predictor(
    loaded: Any, run: Path, template: str | None, label: Sequence[str]
) -> "tuple[Predict, LabelsSpec]":
    """Return the function that classifies lines, and the format of the labels."""
    from regard.data.sources.labels import LabelsSpec
    from regard.errors import ConfigError, RunError
    from regard.loading import noun_of
    from regard.predictors.classifier import Classifier
    from regard.predictors.generator import TextGenerator

    if isinstance(loaded, TextGenerator):
        return _zero_shot(loaded, template, label), LabelsSpec()
    if not isinstance(loaded, Classifier):
        raise RunError(
            f"{run}: holds {noun_of(loaded)}, which predicts no labels; choose a run "
            f"folder made by `regard train` for classification, or one of a language model."
        )
    if template is not None or label:
        raise ConfigError(
            "--template and --label are for a language model; a classifier has its own labels."
        )

    def predict(lines: list[Any], names: list[str]) -> "list[Prediction]":
        texts = [
            loaded.parse_line(line, name) if isinstance(line, str) else _as_text(line)
            for line, name in zip(lines, names, strict=True)
        ]
        return loaded.classify(texts, names)

    return predict, loaded.label_format


def _zero_shot(generator: Any, template: str | None, label: Sequence[str]) -> Predict:
    from regard.errors import ConfigError
    from regard.predictors.zero_shot import ZeroShotClassifier

    if template is None or len(label) < 2:
        raise ConfigError(
            "this is a language model: zero-shot classification needs --template '{text} It was' "
            "--label good=' great' --label bad=' terrible'."
        )
    continuations = {}
    for option in label:
        name, equals, continuation = option.partition("=")
        if not (name and equals and continuation):
            raise ConfigError(f"--label {option!r}: write LABEL=CONTINUATION, as in good=' great'.")
        if name in continuations:
            raise ConfigError(f"--label {name} is given twice.")
        continuations[name] = continuation
    classifier = ZeroShotClassifier(generator, template, continuations)
    return lambda lines, _: list(classifier.classify(list(map(_text, lines))))


def _as_text(line: Any) -> Any:
    """Return a record's text, or a sentence with its tree, as a classifier takes it."""
    from regard.data.records import Record
    from regard.predictors.classifier_evaluation import labeled_text

    return labeled_text(line) if isinstance(line, Record) else line


def _text(line: Any) -> str:
    """Return the text of a line, of a parsed sentence or of a record."""
    if isinstance(line, str):
        return line
    return " ".join(getattr(line, "texts", None) or [line.text])


class _Formatter:
    """Formats predictions for printing."""

    def __init__(self, written: "LabelsSpec", every: bool, as_json: bool, threshold: float) -> None:
        self.written, self.every, self.as_json = written, every, as_json
        self.threshold = threshold

    def __call__(self, prediction: "Prediction | None") -> str:
        if self.as_json:
            return self._json(prediction)
        if prediction is None:
            return ""
        probabilities = prediction.probabilities or {prediction.label: prediction.probability}
        if self.every:
            order = sorted(probabilities, key=probabilities.__getitem__, reverse=True)
            return "\t".join(f"{label}\t{probabilities[label]:.4f}" for label in order)
        if not self.written.several:
            return f"{prediction.label}\t{prediction.probability:.4f}"
        labels = prediction.at_least(self.threshold)
        columns = " ".join(f"{probabilities[label]:.4f}" for label in labels)
        return f"{self.written.write(labels)}\t{columns}"

    def _json(self, prediction: "Prediction | None") -> str:
        import json

        content: dict[str, Any] = {"label": prediction and prediction.label}
        if prediction is not None:
            content["probability"] = round(prediction.probability, 6)
            if self.written.several:
                content = {"labels": list(prediction.at_least(self.threshold))}
            if self.every or self.written.several:
                probabilities = prediction.probabilities.items()
                content["probabilities"] = {label: round(p, 6) for label, p in probabilities}
        return json.dumps(content, ensure_ascii=False)


def _label_lines(lines: Iterator[Any], predict: Predict, format_prediction: _Formatter) -> None:
    from itertools import islice

    from regard.cli._shared.progress import progress_bar
    from regard.errors import DataError
    from regard.predictors.resume_file import CHUNK

    done = 0
    with progress_bar("Classifying", None, "lines") as show:
        while chunk := list(islice(lines, CHUNK)):
            for prediction in _predictions(chunk, done + 1, predict):
                echo(format_prediction(prediction))
            done += len(chunk)
            show(len(chunk))
    if not done:
        raise DataError("there is no text to label.")


def _predictions(lines: list[Any], first: int, predict: Predict) -> "Iterator[Prediction | None]":
    """Return the prediction of each line; None for an empty one."""
    texts = {index: line for index, line in enumerate(lines) if _text(line).strip()}
    names = [_name(line, first + index) for index, line in texts.items()]
    predicted = predict(list(texts.values()), names)
    predictions = dict(zip(texts, predicted, strict=True))
    return map(predictions.get, range(len(lines)))


def _name(line: Any, number: int) -> str:
    """Return the name of a line, sentence or record in errors."""
    if location := getattr(line, "location", None):
        return str(location)
    return f"line {number}" if isinstance(line, str) else f"sentence {number}"


def _interactive(predict: Predict, format_prediction: _Formatter) -> None:
    """Label lines as a person types them; a line with an error does not end the session."""
    from regard.data.sources.lines import decode_line
    from regard.errors import RegardError

    echo("Type a text and press Enter; Ctrl-D ends.", err=True)
    for number, typed in enumerate(sys.stdin.buffer, start=1):
        try:
            line = decode_line(typed.removesuffix(b"\n"), f"line {number}")
            for prediction in _predictions([line], number, predict):
                echo(format_prediction(prediction))
        except RegardError as error:
            echo(f"regard: {error}", err=True)
