"""Translation and summarization of any number of texts: what the two commands share."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from regard.cli._shared.files import check_output, is_read_once
from regard.cli._shared.streams import echo

if TYPE_CHECKING:
    from regard.data.tokenizers.tokenizer import Tokenizer
    from regard.decoding.config import DecodingConfig
    from regard.predictors.resume_file import ResumableOutput


MAX_WARNINGS = 3  # of texts whose outputs may be wrong


@dataclass(frozen=True)
class DecodingOptions:
    """The decoding options of a command, as they are given."""

    beam: int | None
    n_best: int
    scores: bool
    length_penalty: float
    no_repeat_ngram: int
    suppress_phrase: Sequence[str]
    early_stopping: bool = False
    beam_groups: int = 1

    def config(self, tokenizer: "Tokenizer", beam: int) -> "DecodingConfig":
        """Return the settings of the decoder; the beam is at least as wide as `n_best`.

        Args:
            tokenizer: The tokenizer of the model.
            beam: The beam width where none is given.
        """
        from regard.decoding.config import DecodingConfig

        return DecodingConfig(
            beam=max(beam if self.beam is None else self.beam, self.n_best),
            n_best=self.n_best,
            length_penalty=self.length_penalty,
            early_stopping=self.early_stopping,
            beam_groups=self.beam_groups,
            no_repeat_ngram=self.no_repeat_ngram,
            return_scores=self.scores,
            suppress_phrases=[tokenizer.encode(phrase) for phrase in self.suppress_phrase],
        )


class Candidate(Protocol):
    """One output of a predictor."""

    @property
    def text(self) -> str: ...

    @property
    def score(self) -> float: ...

    @property
    def finished(self) -> bool: ...


@dataclass
class Numbers:
    """Numbers of texts to mention: the first five, and how many there are."""

    first: list[int] = field(default_factory=list)
    count: int = 0

    def add(self, number: int) -> None:
        self.count += 1
        if len(self.first) < 5:
            self.first.append(number)

    def listed(self, unit: str) -> str:
        """Return them as text: lines 3, 7, 8, 12, 30 and 9 more."""
        more = f" and {self.count - 5:,} more" if self.count > 5 else ""
        noun = unit.removesuffix("s") if self.count == 1 else unit
        return f"{noun} {', '.join(map(str, self.first))}{more}"


class TextCommand:
    """A predictor and its options, applied to texts in chunks, with as many outputs as texts."""

    title: ClassVar[str]  # of the progress bar
    unit: ClassVar[str]  # of the progress bar, in the plural

    def __init__(self, tokenizer: "Tokenizer", options: DecodingOptions, beam: int = 1) -> None:
        self.tokenizer, self.options = tokenizer, options
        self.decoding = options.config(tokenizer, beam)
        self.done = 0  # texts
        self.unfinished = Numbers()  # of texts whose best output the maximum length ended
        self.fewer = Numbers()  # of texts with fewer different outputs than asked for

    def candidates(self, texts: list[str], names: list[str]) -> "Sequence[Sequence[Candidate]]":
        """Return the best outputs of each text, best first; names are for error messages."""
        raise NotImplementedError

    def doubt(self, text: str) -> str | None:
        """Return why the output for a text may be wrong, if it may."""
        unknown = self.tokenizer.unknown_characters(text)
        characters = ", ".join(f"'{char}' (U+{ord(char):04X})" for char in unknown[:5])
        return f"never seen in training: {characters}" if unknown else None

    def columns(self, candidate: Any) -> list[str]:
        """Return the columns to print for an output: its text, on one line."""
        return [candidate.text.replace("\n", " ")]

    def __call__(self, texts: list[str]) -> list[str]:
        """Return the lines to print for each text, joined if there are several."""
        printed = []
        numbers = range(self.done + 1, self.done + len(texts) + 1)
        names = [f"{self.unit.removesuffix('s')} {number}" for number in numbers]
        outputs = self.candidates(texts, names)
        for number, text, candidates in zip(numbers, texts, outputs, strict=True):
            printed.append("\n".join(self._line(number, candidate) for candidate in candidates))
            if not candidates[0].finished:
                self.unfinished.add(number)
            if text.strip() and len(candidates) < self.options.n_best:
                self.fewer.add(number)
        self.done += len(texts)
        return printed

    def report(self) -> None:
        """Print which texts have unfinished outputs or fewer than asked for, to standard error."""
        for numbers, sentence in (
            (self.unfinished, "Unfinished at the maximum length (--max-tokens)"),
            (
                self.fewer,
                f"Fewer than {self.options.n_best} different outputs found (a wider --beam finds "
                f"more)",
            ),
        ):
            if numbers.count:
                echo(f"{sentence}: {numbers.listed(self.unit)}.", err=True)

    def _line(self, number: int, candidate: Candidate) -> str:
        if not self.options.scores:
            return "\t".join(self.columns(candidate))
        mark = [] if candidate.finished else ["unfinished"]
        columns = [str(number), f"{candidate.score:.4f}", *self.columns(candidate), *mark]
        return "\t".join(columns)


def require_text(texts: Iterator[str], source: object, verb: str) -> Iterator[str]:
    """Return the texts; refuse if the first 10,000 are all that there are and all are empty."""
    from itertools import chain, islice

    from regard.errors import DataError

    first = list(islice(texts, 10_000))
    if not any(map(str.strip, first)) and len(first) < 10_000:
        raise DataError(f"{source}: there is no text to {verb}.")
    return chain(first, texts)


def to_standard_output(command: TextCommand, texts: Iterator[str]) -> None:
    """Print the outputs as they are computed."""
    from regard.cli._shared.progress import progress_bar
    from regard.predictors.resume_file import in_chunks

    with progress_bar(command.title, None, command.unit) as advance:
        for line in in_chunks(warn_of_doubts(command, texts), command):
            echo(line)
            advance(1)
    command.report()


def resumable_output(
    output: Path, run: Path, inputs: Sequence[Path], options: DecodingOptions, settings: Any
) -> "ResumableOutput":
    """Check the output file of a command, before a model is loaded.

    Args:
        output: The file to write.
        run: The run folder.
        inputs: The files that are read.
        options: The decoding options.
        settings: Other settings that the outputs depend on, as plain data.
    """
    from regard.predictors.resume_file import ResumableOutput
    from regard.run_folder import fingerprint

    check_output(output, run, inputs)
    resumable = not any(map(is_read_once, inputs)) and options.n_best == 1
    stamps = [(file.absolute(), file.stat()) for file in inputs if resumable]
    files = [[str(file), stamp.st_size, stamp.st_mtime_ns] for file, stamp in stamps]
    return ResumableOutput(
        output, [fingerprint(run), files, [asdict(options), settings]], resumable
    )


def to_file(
    command: TextCommand, texts: Iterator[str], target: "ResumableOutput", total: int | None = None
) -> None:
    """Write the outputs to a file; resume an interrupted command if its input can be read again."""
    from itertools import islice

    from regard.cli._shared.progress import progress_bar
    from regard.predictors.resume_file import in_chunks

    done = target.done()
    if done:
        echo(f"Resuming after line {done:,}.", err=True)
    command.done = done
    remaining = None if total is None else total - done
    with progress_bar(command.title, remaining, command.unit) as advance:

        def lines() -> Iterator[str]:
            rest = warn_of_doubts(command, islice(texts, done, None))
            for line in in_chunks(rest, command):
                advance(1)
                yield line

        target.write(lines(), done)
    command.report()


def warn_of_doubts(command: TextCommand, texts: Iterator[str]) -> Iterator[str]:
    """Yield the texts; name the first three whose outputs may be wrong, and why."""
    warnings = 0
    for number, text in enumerate(texts, start=command.done + 1):
        doubt = command.doubt(text) if warnings < MAX_WARNINGS else None
        if doubt:
            warnings += 1
            echo(f"{command.unit.removesuffix('s')} {number}: {doubt}.", err=True)
        yield text
