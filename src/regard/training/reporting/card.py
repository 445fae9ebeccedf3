"""The model card: what a stranger who finds the run folder needs to know."""

from collections.abc import Mapping

from regard.data.ledger import Ledger
from regard.training.checkpoint import TrainState
from regard.training.init.from_run import InitReport
from regard.training.recipe import Recipe
from regard.training.tasks.base import TaskResult


def card(
    recipe: Recipe,
    finished: TaskResult,
    ledger: Ledger,
    state: TrainState,
    parameters: int,
    counts: Mapping[str, int],
    init_report: InitReport | None = None,
) -> str:
    spent = (
        f"{state.elapsed_seconds / 60:,.0f} minutes" if state.elapsed_seconds > 90 else "a minute"
    )
    skipped = (
        f" {state.skipped:,} updates with a loss that was not finite were skipped."
        if state.skipped
        else ""
    )
    rows = "\n".join(
        f"| {part} | {source} | {tally.read:,} | {tally.kept:,} |"
        for part, source, tally in ledger.tallies()
    )
    began = f"\n{init_report.card()}" if init_report else ""
    return f"""# {finished.title}

Made with Regard: {recipe.model.kind()}, {parameters:,} parameters, trained for {state.step:,}
steps ({state.target_tokens:,} predicted tokens, {spent}).{skipped} `recipe.yaml` says exactly how.
{_overflow(counts)}
{finished.card}
## Data

| part | source | lines read | kept |
|---|---|---|---|
{rows}

`ledger.json` says why lines were dropped and where they stand.
{began}"""


def _overflow(counts: Mapping[str, int]) -> str:
    """What became of words that found their experts full."""
    if not counts.get("assignments"):
        return ""
    share = counts["dropped"] / counts["assignments"]
    return (
        f"\nWords were given to experts {counts['assignments']:,} times while it was trained; "
        f"{counts['dropped']:,} times ({share:.2%}) there was no room left, and the word went "
        f"on by the residual alone. Now there is room for all.\n"
    )
