"""regard generate: continue a text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli._shared.options import NoRepeat


def generate(
    run: Annotated[Path, typer.Argument(help="A run folder with a language model.")],
    prompt: Annotated[str, typer.Option(help="What the text begins with.")] = "",
    tokens: Annotated[int, typer.Option(min=1, help="At most so many more.")] = 100,
    temperature: Annotated[
        float, typer.Option(min=0, help="0: always the likeliest word; 1: as the model says.")
    ] = 0.0,
    top_k: Annotated[int, typer.Option(min=0, help="Draw from the k likeliest; 0: from all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from the likeliest that make up p.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Leave out what is p times less likely.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw.")] = 0,
    beam: Annotated[int, typer.Option(min=1, help="Search instead of drawing.")] = 1,
    repetition_penalty: Annotated[float, typer.Option(help="1: none.")] = 1.0,
    no_repeat: NoRepeat = 0,
    draft: Annotated[
        Path | None, typer.Option(help="A smaller model that guesses: the same text, sooner.")
    ] = None,
    lookup: Annotated[
        bool,
        typer.Option("--lookup", help="Guess by what the text repeats: the same, sooner."),
    ] = False,
    window: Annotated[
        bool,
        typer.Option("--window", help="Forget the beginning of what the model has no room for."),
    ] = False,
) -> None:
    """Continue a prompt; words appear as they are found."""
    from regard.decoding.config import Search
    from regard.decoding.sampling import Sampling
    from regard.errors import ConfigError
    from regard.loading import load_writer

    searching = beam > 1 or repetition_penalty != 1 or no_repeat > 0
    if temperature == 0 and (top_k or top_p < 1 or min_p):
        raise ConfigError("--top-k, --top-p and --min-p draw words: give a --temperature above 0.")
    if searching and (draft is not None or lookup):
        raise ConfigError(
            "--draft and --lookup guess for a plain continuation: leave out --beam, "
            "--repetition-penalty and --no-repeat."
        )
    writer = load_writer(run)
    if window and (sentence := writer.forgotten(prompt, tokens)):
        typer.echo(f"regard: {sentence}.", err=True)
    sampling = Sampling(temperature, top_k, top_p, min_p, seed) if temperature > 0 else None
    if draft is not None or lookup:
        guesser = None if draft is None else load_writer(draft)
        words = writer.speculate(prompt, tokens, guesser, sampling, window=window)
    elif searching:
        search = Search(
            beam=beam,
            sampling=sampling,
            repetition_penalty=repetition_penalty,
            no_repeat=no_repeat,
        )
        words = iter([writer.generate(prompt, tokens, search, window)])
    else:
        words = writer.stream(prompt, tokens, sampling, window)
    first = next(words, "")  # what is refused is refused before anything is written
    sys.stdout.write(prompt + first)
    for word in words:
        sys.stdout.write(word)
        sys.stdout.flush()
    sys.stdout.write("\n")
