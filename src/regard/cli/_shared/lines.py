"""Lines in, lines out: what commands share that answer a text for a text, of any number."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

if TYPE_CHECKING:
    from regard.data.tokenizers.tokenizer import Tokenizer
    from regard.decoding.config import DecodingConfig


class Job(Protocol):
    """A question that is the same for every text."""

    title: str  # of the bar
    unit: str  # what is counted
    search: "DecodingConfig"
    done: int  # texts

    @property
    def tokenizer(self) -> "Tokenizer": ...

    def __call__(self, texts: list[str], /) -> list[str]:
        """What to print for each: of several lines where several answers are asked for."""
        ...

    def plain(self) -> Any:
        """All that the answers depend on but the model and the text."""
        ...


def peeked(texts: Iterator[str]) -> tuple[bool, Iterator[str]]:
    """Whether there is anything in the first texts, and all texts."""
    from itertools import chain, islice

    first = list(islice(texts, 10_000))
    return any(map(str.strip, first)) or len(first) == 10_000, chain(first, texts)


def to_standard_output(job: Job, texts: Iterator[str]) -> None:
    from regard.cli._shared.console import reporter
    from regard.predictors.resume_file import in_chunks

    with reporter().bar(job.title, None, job.unit) as show:
        for text in in_chunks(told(job, texts), job):
            typer.echo(text)
            show(1)


def to_file(
    job: Job,
    texts: Iterator[str],
    output: Path,
    run: Path,
    files: Sequence[Path] = (),
    total: int | None = None,
) -> None:
    """Where the files that are read are known, a job that was stopped goes on where it was."""
    from itertools import islice

    from regard.cli._shared.console import reporter
    from regard.predictors.resume_file import ResumableOutput, in_chunks
    from regard.run_folder import fingerprint

    stamps = [
        [str(each.absolute()), each.stat().st_size, each.stat().st_mtime_ns] for each in files
    ]
    part = ResumableOutput(output, [fingerprint(run), stamps, job.plain()])
    done = part.done() if files else 0
    if job.search.n_best > 1:
        done = 0  # several answers a line, not always as many: from the beginning
    if done:
        typer.echo(f"Going on after line {done:,}.", err=True)
    job.done = done
    with reporter().bar(job.title, None if total is None else total - done, job.unit) as show:

        def shown() -> Iterator[str]:
            for text in in_chunks(told(job, islice(texts, done, None)), job):
                show(1)
                yield text

        part.write(shown(), done)


def told(job: Job, texts: Iterator[str]) -> Iterator[str]:
    """The texts; the first with characters that are new to the model are named."""
    times = 0
    for number, text in enumerate(texts, start=job.done + 1):
        unseen = job.tokenizer.unknown_characters(text) if times < 3 else []
        if unseen:
            times += 1
            named = ", ".join(f"'{each}' (U+{ord(each):04X})" for each in unseen[:5])
            typer.echo(
                f"{job.unit.removesuffix('s')} {number}: never seen in training: {named}.", err=True
            )
        yield text
