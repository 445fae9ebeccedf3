"""Every line that was read is kept, or dropped for a cause that is named: nothing just vanishes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table
from rich.text import Text

from regard.data.filters.checks import SETTINGS
from regard.data.records import Place, Rejected
from regard.data.sources.characters import quote
from regard.data.sources.hash_split import OUTSIDE_SPLIT
from regard.errors import DataError, RunError

FIRST = 5  # of the lines dropped for a cause, this many are shown
DUPLICATE, HELD_OUT, KEPT_OUT = "duplicate", "held out", "kept out"
# No text is lost that does not stand elsewhere, or whose loss was asked for.
REPEATED = frozenset({DUPLICATE, HELD_OUT, KEPT_OUT, OUTSIDE_SPLIT})


@dataclass(frozen=True)
class Example:
    """A line that was dropped: where it stands, what was found, and how it begins."""

    file: str
    line: int
    found: str = ""
    excerpt: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (str(Place(self.file, self.line)), self.found)))


@dataclass
class Cause:
    """The lines dropped for one cause: how many, and the first of them."""

    count: int = 0
    first: list[Example] = field(default_factory=list)


@dataclass
class Tally:
    """The lines of one source in one part."""

    kept: int = 0
    dropped: dict[str, Cause] = field(default_factory=dict)
    shortened: int = 0  # of those that were cut into pieces, how many are read in part only

    @property
    def read(self) -> int:
        return self.kept + sum(cause.count for cause in self.dropped.values())

    @property
    def lost(self) -> int:
        return sum(cause.count for why, cause in self.dropped.items() if why not in REPEATED)

    def by_count(self) -> list[tuple[str, Cause]]:
        """Causes, the largest first."""
        return sorted(self.dropped.items(), key=lambda item: -item[1].count)


class Ledger:
    """Tallies by part (train, dev, test) and source."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, Tally]] = {}

    def keep(self, part: str, source: str, n: int = 1) -> None:
        self._tally(part, source).kept += n

    def drop(
        self, part: str, source: str, rejected: Rejected, n: int = 1, texts: Sequence[str] = ()
    ) -> None:
        """Lines that are not kept, and their texts, if there are any, to show how they begin."""
        cause = self._tally(part, source).dropped.setdefault(rejected.why, Cause())
        cause.count += n
        if len(cause.first) < FIRST:
            excerpt = " | ".join(quote(text, width=40) for text in texts)
            cause.first.append(Example(*rejected.place, rejected.found, excerpt))

    def move(
        self, part: str, source: str, rejected: Rejected, n: int = 1, texts: Sequence[str] = ()
    ) -> None:
        """Lines that were kept and are dropped after all."""
        self.keep(part, source, -n)
        self.drop(part, source, rejected, n, texts)

    def shorten(self, part: str, source: str, n: int) -> None:
        """Lines of which only the beginning is read, as the recipe asks."""
        if n:
            self._tally(part, source).shortened += n

    def tallies(self) -> Iterator[tuple[str, str, Tally]]:
        for part, sources in self._parts.items():
            for source, tally in sources.items():
                yield part, source, tally

    @property
    def lost(self) -> float:
        """The share of all lines read whose text is lost."""
        read = sum(tally.read for _, _, tally in self.tallies())
        return sum(tally.lost for _, _, tally in self.tallies()) / max(read, 1)

    def enforce(self, max_dropped: float) -> None:
        """No source of a part may lose more than this share of its lines, nor all of them."""
        for part, source, tally in self.tallies():
            lost = tally.lost / max(tally.read, 1)
            if lost > max_dropped:
                why, said = _main_cause(tally)
                setting = f"data.filters.{SETTINGS[why]} or " if why in SETTINGS else ""
                raise DataError(
                    f"{source}: {lost:.1%} of the {tally.read:,} lines for {part} are lost and "
                    f"{max_dropped:.1%} may be; {said}: mend them, or change {setting}"
                    f"data.filters.max_dropped."
                )
            if tally.kept == 0:
                raise DataError(
                    f"{source}: none of the {tally.read:,} lines for {part} is left; "
                    f"{_main_cause(tally)[1]}."
                )

    def table(self) -> Table:
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("part", no_wrap=True)
        table.add_column("source", overflow="fold")
        for column in ("read", "kept", "dropped"):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("why", no_wrap=True)
        table.add_column("first at", overflow="fold")
        for part, source, tally in self.tallies():
            head = [part, source, f"{tally.read:,}", f"{tally.kept:,}"]
            rows = [
                [f"{cause.count:,}", why, str(cause.first[0])] for why, cause in tally.by_count()
            ]
            if tally.shortened:
                rows.append(["", f"{tally.shortened:,} read in part", ""])
            for row in rows or [["0", "", ""]]:
                table.add_row(*map(Text, head + row))  # as Text, for names may have [brackets]
                head = [""] * len(head)
        return table

    def to_json(self) -> str:
        content = {
            part: {source: {"read": tally.read, **asdict(tally)} for source, tally in each.items()}
            for part, each in self._parts.items()
        }
        return json.dumps(content, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        ledger = cls()
        try:
            for part, sources in json.loads(text).items():
                for source, content in sources.items():
                    ledger._parts.setdefault(part, {})[source] = _tally_from(content)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunError(f"the ledger cannot be understood ({error}).") from None
        return ledger

    def _tally(self, part: str, source: str) -> Tally:
        return self._parts.setdefault(part, {}).setdefault(source, Tally())


def _tally_from(content: dict[str, Any]) -> Tally:
    dropped = {
        why: Cause(cause["count"], [Example(**example) for example in cause["first"]])
        for why, cause in content["dropped"].items()
    }
    tally = Tally(content["kept"], dropped, content.get("shortened", 0))
    if tally.read != content["read"]:
        raise ValueError(f"{content['read']} lines were read and {tally.read} accounted for")
    return tally


def _main_cause(tally: Tally) -> tuple[str, str]:
    """The largest cause of loss (where nothing was lost, of what is missing), and it as told."""
    causes = sorted(tally.by_count(), key=lambda item: item[0] in REPEATED)
    if not causes:
        return "", "there is no text in it"
    why, cause = causes[0]
    return why, f"most ({cause.count:,}) for {why}, first {cause.first[0]}"
