"""regard score: log-probability of text under a model."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli._shared.files import check_inputs
from regard.cli._shared.streams import echo


def score(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    file: Annotated[Path, typer.Argument(help="Text file, or sources, one a line.")],
    target: Annotated[
        Path | None, typer.Argument(help="Translations or summaries of the sources, one a line.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="Language of the translations.")] = None,
    per_token: Annotated[
        bool, typer.Option("--per-token", help="Append the log probability of each token.")
    ] = False,
) -> None:
    """Print log p, log p per token and perplexity of each line."""
    from regard.data.sources.lines import read_lines
    from regard.errors import DataError
    from regard.loading import load
    from regard.predictors.generator import TextGenerator
    from regard.predictors.mask_filler import MaskFiller
    from regard.predictors.summarizer import Summarizer
    from regard.predictors.translator import Translator

    check_inputs(file, target)
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
        raise DataError(f"{run}: holds a model that generates no text, so it cannot score any.")
    for line_score in scores:
        fields = [
            f"{line_score.total:.4f}",
            f"{line_score.mean:.4f}",
            f"{line_score.perplexity:.4f}",
        ]
        fields += (
            [" ".join(f"{log_prob:.4f}" for log_prob in line_score.token_log_probs)]
            if per_token
            else []
        )
        echo("\t".join(fields))
