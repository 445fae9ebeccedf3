"""regard score: how likely a model finds given text."""

from pathlib import Path
from typing import Annotated

import typer


def score(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    file: Annotated[Path, typer.Argument(help="Text, or sources, one a line.")],
    target: Annotated[
        Path | None, typer.Argument(help="Their translations or summaries, one a line.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="The language of the translations.")] = None,
    per_token: Annotated[
        bool, typer.Option("--per-token", help="Append the log probability of each token.")
    ] = False,
) -> None:
    """For each line: log p, log p by word, perplexity."""
    from regard.data.sources.lines import read_lines
    from regard.errors import DataError
    from regard.loading import load
    from regard.predictors.generator import TextGenerator
    from regard.predictors.mask_filler import MaskFiller
    from regard.predictors.summarizer import Summarizer
    from regard.predictors.translator import Translator

    loaded = load(run)
    lines = read_lines(file)
    if isinstance(loaded, Translator):
        if target is None:
            raise DataError("a translator scores translations: give sources and translations.")
        scores = loaded.score(lines, read_lines(target), to)
    elif isinstance(loaded, Summarizer):
        if target is None:
            raise DataError("a summarizer scores summaries: give texts and their summaries.")
        scores = loaded.score(lines, read_lines(target))
    elif isinstance(loaded, TextGenerator | MaskFiller):
        scores = loaded.score(lines)
    else:
        raise DataError(f"{run}: holds a model that says nothing, so nothing can be scored.")
    for each in scores:
        fields = [f"{each.total:.4f}", f"{each.mean:.4f}", f"{each.perplexity:.4f}"]
        fields += [" ".join(f"{word:.4f}" for word in each.token_log_probs)] if per_token else []
        typer.echo("\t".join(fields))
