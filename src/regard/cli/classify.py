"""regard classify: lines in, labels out."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.data.sources.labels import LabelsSpec
    from regard.predictors.classifier import Prediction

# Of lines, or sentences with their trees, and what each is called.
Judge = Callable[[list[Any], list[str]], "list[Prediction]"]


def classify(
    run: Annotated[Path, typer.Argument(help="A run folder with a classifier.")],
    file: Annotated[
        Path,
        typer.Argument(
            help="A text a line (a pair: a tab between), or sentences with their trees (.conllu); "
            "- is standard input."
        ),
    ] = Path("-"),
    text: Annotated[
        list[str] | None, typer.Option(help="A text itself, instead of a file; may be repeated.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every label with its probability, likeliest first.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Of several labels, those at least so likely.")
    ] = 0.5,
    template: Annotated[
        str | None,
        typer.Option(help="For a language model: what it reads, as in '{text} It was'."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="For a language model: a label and how it goes on, as in good=' great'."),
    ] = None,
) -> None:
    """Label texts: as many lines out as in, each a label, a tab and its probability.

    An empty line has no label, and gives an empty line. A language model labels by the continuation
    that it finds likeliest: give it a --template and two --label or more.
    """
    from regard.data.sources._conllu import is_conllu, parsed_sentences
    from regard.data.sources.lines import stream_text
    from regard.errors import ConfigError
    from regard.loading import load

    if text and str(file) != "-":
        raise ConfigError("give --text or a FILE, not both.")
    judge, written = _judge(load(run), run, template, label or [])
    shown = _Shown(written, every, as_json, threshold)
    if not text and str(file) == "-" and sys.stdin.isatty():
        _converse(judge, shown)
    else:
        read = parsed_sentences if is_conllu(file) else stream_text
        _answer(iter(text) if text else read(file), judge, shown)


def _judge(
    loaded: Any, run: Path, template: str | None, label: Sequence[str]
) -> "tuple[Judge, LabelsSpec]":
    """How lines are judged, and how labels are written."""
    from regard.data.sources.labels import LabelsSpec
    from regard.errors import ConfigError, RunError
    from regard.loading import noun_of
    from regard.predictors.classifier import Classifier
    from regard.predictors.generator import TextGenerator

    if isinstance(loaded, TextGenerator):
        return _by_continuation(loaded, template, label), LabelsSpec()
    if not isinstance(loaded, Classifier):
        raise RunError(
            f"{run}: holds {noun_of(loaded)}, which gives no labels; choose a run "
            f"folder made by `regard train` for classification, or one of a language model."
        )
    if template is not None or label:
        raise ConfigError(
            "--template and --label are for a language model; a classifier has labels of its own."
        )

    def judge(lines: list[Any], places: list[str]) -> "list[Prediction]":
        asked = [
            loaded.split(line, place) if isinstance(line, str) else line
            for line, place in zip(lines, places, strict=True)
        ]
        return loaded.classify(asked, places)

    return judge, loaded.written


def _by_continuation(writer: Any, template: str | None, label: Sequence[str]) -> Judge:
    from regard.errors import ConfigError
    from regard.predictors.zero_shot import ZeroShotClassifier

    if template is None or len(label) < 2:
        raise ConfigError(
            "this is a language model: say how it is to label, as in --template '{text} It was' "
            "--label good=' great' --label bad=' terrible'."
        )
    continuations = {}
    for each in label:
        name, equals, continuation = each.partition("=")
        if not (name and equals and continuation):
            raise ConfigError(f"--label {each!r}: write LABEL=CONTINUATION, as in good=' great'.")
        if name in continuations:
            raise ConfigError(f"--label {name} is given twice.")
        continuations[name] = continuation
    chooser = ZeroShotClassifier(writer, template, continuations)
    return lambda lines, _: list(chooser.classify(list(map(_text, lines))))


def _text(line: Any) -> str:
    """What it says, with or without a tree."""
    text: str = line if isinstance(line, str) else line.text
    return text


class _Shown:
    """How a judgement is printed."""

    def __init__(self, written: "LabelsSpec", every: bool, as_json: bool, threshold: float) -> None:
        self.written, self.every, self.as_json = written, every, as_json
        self.threshold = threshold

    def __call__(self, judged: "Prediction | None") -> str:
        if self.as_json:
            return self._json(judged)
        if judged is None:
            return ""
        given = judged.probabilities or {judged.label: judged.probability}
        if self.every:
            order = sorted(given, key=given.__getitem__, reverse=True)
            return "\t".join(f"{label}\t{given[label]:.4f}" for label in order)
        if not self.written.several:
            return f"{judged.label}\t{judged.probability:.4f}"
        labels = judged.at_least(self.threshold)
        shares = " ".join(f"{given[label]:.4f}" for label in labels)
        return f"{self.written.write(labels)}\t{shares}"

    def _json(self, judged: "Prediction | None") -> str:
        import json

        content: dict[str, Any] = {"label": judged and judged.label}
        if judged is not None:
            content["probability"] = round(judged.probability, 6)
            if self.written.several:
                content = {"labels": list(judged.at_least(self.threshold))}
            if self.every or self.written.several:
                shares = judged.probabilities.items()
                content["probabilities"] = {label: round(p, 6) for label, p in shares}
        return json.dumps(content, ensure_ascii=False)


def _answer(lines: Iterator[Any], judge: Judge, shown: _Shown) -> None:
    from itertools import islice

    from regard.cli._shared.console import reporter
    from regard.errors import DataError
    from regard.predictors.resume_file import CHUNK

    done = 0
    with reporter().bar("Classifying", None, "lines") as show:
        while chunk := list(islice(lines, CHUNK)):
            for answer in _judged(chunk, done + 1, judge):
                typer.echo(shown(answer))
            done += len(chunk)
            show(len(chunk))
    if not done:
        raise DataError("there is no text to label.")


def _judged(lines: list[Any], first: int, judge: Judge) -> "Iterator[Prediction | None]":
    """The judgement of each line; an empty one has none."""
    asked = {at: line for at, line in enumerate(lines) if _text(line).strip()}
    unit = "line" if all(isinstance(line, str) for line in lines) else "sentence"
    found = judge(list(asked.values()), [f"{unit} {first + at}" for at in asked])
    answers = dict(zip(asked, found, strict=True))
    return map(answers.get, range(len(lines)))


def _converse(judge: Judge, shown: _Shown) -> None:
    """A person types: each line is answered at once, and a line that cannot be is not the end."""
    from regard.errors import DataError

    typer.echo("Type a text and press Enter; Ctrl-D ends.", err=True)
    for number, line in enumerate(sys.stdin, start=1):
        try:
            for answer in _judged([line.rstrip("\n")], number, judge):
                typer.echo(shown(answer))
        except DataError as error:
            typer.echo(f"regard: {error}", err=True)
