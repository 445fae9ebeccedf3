"""Advice for a refusal of data that lost too many lines: the settings that would keep them."""

from regard.data.config import DataSpec, source_name
from regard.data.ledger import OVER_LIMIT, Advise, Tally
from regard.data.sources.table_advice import explain_columns

# Causes that often mean that the wrong columns are read.
OF_COLUMNS = frozenset(
    {"length ratio", "empty side", "empty label", "unknown label", "not one label"}
)


def advisor(data: DataSpec, limit: int) -> Advise:
    """Return the function that advises on the sources of a recipe.

    `limit` is the model's maximum length.
    """
    sources = {source_name(source): source for split in data.splits.values() for source in split}

    def advise(source: str, reason: str, tally: Tally, max_dropped: float) -> str:
        if reason == OVER_LIMIT:
            return _longer(tally, limit, max_dropped, data.record_type == "labeled")
        if reason in OF_COLUMNS and source in sources:
            return explain_columns(sources[source])
        return ""

    return advise


def _longer(tally: Tally, limit: int, max_dropped: float, can_truncate: bool) -> str:
    """Return the maximum lengths that keep enough and all of the lines, and their cost."""
    if not tally.needed:
        return ""
    others = tally.num_dropped - sum(tally.needed.values())
    left, enough, longest = sum(tally.needed.values()), 0, max(tally.needed)
    for length in sorted(tally.needed):
        left -= tally.needed[length]
        enough = length
        if others + left <= max_dropped * tally.read:
            break
    but = f" but {left:,} of them (all: {longest:,})" if left else " of them"
    cut = "; task.truncate: head (or tail, both) cuts long texts instead" if can_truncate else ""
    return (
        f"model.max_length: {enough} keeps all{but}, and attention to a text of that length takes "
        f"{(enough / limit) ** 2:.1f} times the time and memory of one with {limit}{cut}"
    )
