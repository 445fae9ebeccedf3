"""The model card: README.md of a run folder."""

from collections.abc import Mapping

from regard.data.ledger import Ledger
from regard.training.checkpoint import TrainState
from regard.training.init.from_run import InitReport
from regard.training.recipe import Recipe
from regard.training.tasks.base import BoundTask, TaskResult


def card(
    recipe: Recipe,
    task: BoundTask,
    result: TaskResult,
    ledger: Ledger,
    state: TrainState,
    parameters: int,
    counts: Mapping[str, int],
    init_report: InitReport | None = None,
) -> str:
    """Return the card as Markdown; `counts` are the totals of what layers counted."""
    spent = (
        f"{state.elapsed_seconds / 60:,.0f} minutes" if state.elapsed_seconds > 90 else "a minute"
    )
    skipped = (
        f" {state.skipped:,} updates with a loss that was not finite were skipped."
        if state.skipped
        else ""
    )
    seen = f"{state.target_tokens // task.targets_per_unit:,} {task.unit}"
    rows = "\n".join(
        f"| {part} | {source} | {tally.read:,} | {tally.kept:,} |"
        for part, source, tally in ledger.tallies()
    )
    terms = "".join(f"\n\n{sentence}" for sentence in _terms(recipe))
    init = f"\n{init_report.card()}" if init_report else ""
    return f"""# {result.title}

Made with Regard: {recipe.model.kind()}, {parameters:,} parameters, trained for {state.step:,}
steps ({seen}, {spent}).{skipped} `recipe.yaml` is its recipe.
{_overflow(counts)}
{result.card}
## Data

| part | source | lines read | kept |
|---|---|---|---|
{rows}

`ledger.json` lists why lines were dropped, and which.{terms}
{init}"""


def _terms(recipe: Recipe) -> list[str]:
    """Return the terms of the data sets that the recipe names, each once."""
    sources = [source for sources in recipe.data.splits.values() for source in sources]
    return list(dict.fromkeys(source.terms for source in sources if source.terms))


def _overflow(counts: Mapping[str, int]) -> str:
    """Return a paragraph on tokens that were dropped because their experts were full."""
    if not counts.get("assignments"):
        return ""
    share = counts["dropped"] / counts["assignments"]
    return (
        f"\nTokens were assigned to experts {counts['assignments']:,} times in training; "
        f"{counts['dropped']:,} times ({share:.2%}) the expert was full, and only the residual "
        f"connection was used. In inference no assignment is dropped.\n"
    )
