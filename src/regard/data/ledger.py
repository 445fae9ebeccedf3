"""The ledger: counts every line that was read as kept, or as dropped for a named cause."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from regard.data.filters.quality import SETTINGS
from regard.data.records import Location, Rejected
from regard.data.sources.characters import quote, shortened
from regard.data.sources.hash_split import OUTSIDE_SPLIT
from regard.errors import DataError, RunError

LENGTH_STEP = 64  # tokens; the lengths of lines over the limit are counted in such steps
OVER_LIMIT = "over the limit"
INDENT = (0, 0, 0, 2)  # of a cause, below its source
FIRST = 5  # number of dropped lines that are shown for each cause
DUPLICATE, EVAL_OVERLAP, EXCLUDED = "duplicate", "in dev or test", "excluded"
RELABELED, REVERSED = "in dev or test with another label", "reversed in dev or test"
SHARED_TEXTS = {
    "pair": ("source in dev or test", "target in dev or test"),
    "labeled": ("first text in dev or test", "second text in dev or test"),
}
# These causes do not count toward max_dropped: the text is still elsewhere, or the recipe drops it.
INTENDED = frozenset(
    {DUPLICATE, EVAL_OVERLAP, RELABELED, REVERSED, EXCLUDED, OUTSIDE_SPLIT}.union(
        *SHARED_TEXTS.values()
    )
)


@dataclass(frozen=True)
class DroppedLine:
    """A dropped line: location, what was found, and the beginning of its text."""

    file: str
    line: int
    detail: str = ""
    excerpt: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (str(Location(self.file, self.line)), self.detail)))

    def within(self, source: str) -> str:
        """Return the line and what was found, with the file if it is not the source itself."""
        return str(self).removeprefix(f"{source}, ") if self.file == source else str(self)


@dataclass
class Cause:
    """Lines dropped for one cause: their number, and the first of them."""

    count: int = 0
    first: list[DroppedLine] = field(default_factory=list)


@dataclass
class Tally:
    """Counts of the lines of one source in one split."""

    kept: int = 0
    dropped: dict[str, Cause] = field(default_factory=dict)
    truncated: int = 0  # kept lines of which only the first tokens are used
    shared: dict[str, Cause] = field(default_factory=dict)  # kept lines that overlap with dev, test
    needed: dict[int, int] = field(default_factory=dict)  # maximum length → lines that need it

    @property
    def read(self) -> int:
        """Number of lines read."""
        return self.kept + sum(cause.count for cause in self.dropped.values())

    @property
    def num_dropped(self) -> int:
        """Number of lines dropped for a cause that counts toward max_dropped."""
        return sum(cause.count for reason, cause in self.dropped.items() if reason not in INTENDED)

    def by_count(self) -> list[tuple[str, Cause]]:
        """Return the causes, the largest first."""
        return sorted(self.dropped.items(), key=lambda item: -item[1].count)


# (source, its main reason, its tally, fraction that may be dropped) → advice, or nothing
Advise = Callable[[str, str, Tally, float], str]


class LostDataError(DataError):
    """Data that lost too many lines, with the ledger that counts them."""

    def __init__(self, message: str, ledger: "Ledger") -> None:
        super().__init__(message)
        self.ledger = ledger


class Ledger:
    """Tallies by split (train, dev, test, exclude) and source."""

    def __init__(self) -> None:
        self._splits: dict[str, dict[str, Tally]] = {}

    def keep(self, split: str, source: str, n: int = 1) -> None:
        """Count n lines as kept."""
        self._tally(split, source).kept += n

    def drop(
        self, split: str, source: str, rejected: Rejected, n: int = 1, texts: Sequence[str] = ()
    ) -> None:
        """Count n lines as dropped; the beginning of `texts` is shown."""
        tally = self._tally(split, source)
        _count(tally.dropped, rejected, n, texts)
        if rejected.tokens:
            length = -(-rejected.tokens // LENGTH_STEP) * LENGTH_STEP
            tally.needed[length] = tally.needed.get(length, 0) + n

    def move(
        self, split: str, source: str, rejected: Rejected, n: int = 1, texts: Sequence[str] = ()
    ) -> None:
        """Count n lines that were kept as dropped."""
        self.keep(split, source, -n)
        self.drop(split, source, rejected, n, texts)

    def share(self, split: str, source: str, rejected: Rejected, n: int = 1) -> None:
        """Count n kept lines as sharing text with dev or test."""
        _count(self._tally(split, source).shared, rejected, n)

    def truncate(self, split: str, source: str, n: int) -> None:
        """Count n kept lines as truncated."""
        if n:
            self._tally(split, source).truncated += n

    def tallies(self) -> Iterator[tuple[str, str, Tally]]:
        """Yield split, source and tally."""
        for split, sources in self._splits.items():
            for source, tally in sources.items():
                yield split, source, tally

    @property
    def drop_rate(self) -> float:
        """Fraction of all lines that were dropped for a cause that counts toward max_dropped."""
        read = sum(tally.read for _, _, tally in self.tallies())
        return sum(tally.num_dropped for _, _, tally in self.tallies()) / max(read, 1)

    def enforce(self, max_dropped: float, advise: Advise = lambda *_: "") -> None:
        """Raise LostDataError if a source lost more than this fraction of its lines, or all."""
        for split, source, tally in self.tallies():
            drop_rate = tally.num_dropped / max(tally.read, 1)
            reason, description = _main_cause(tally)
            if drop_rate > max_dropped:
                setting = f"data.filters.{SETTINGS[reason]} or " if reason in SETTINGS else ""
                problem = (
                    f"{drop_rate:.1%} of the {tally.read:,} lines for {split} are dropped and at "
                    f"most {max_dropped:.1%} may be; {description}: fix them, or change {setting}"
                    f"data.filters.max_dropped"
                )
            elif tally.kept == 0:
                problem = f"none of the {tally.read:,} lines for {split} is left; {description}"
            else:
                continue
            advice = advise(source, reason, tally, max_dropped)
            raise LostDataError(f"{source}: {problem}{'; ' + advice if advice else ''}.", self)

    def table(self) -> Table:
        """Return the ledger as a table for the terminal: below each source, why lines were dropped.

        Folders of all sources are left out.
        """
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("split", no_wrap=True)
        table.add_column("source", overflow="fold")
        for column in ("read", "kept", "dropped"):
            table.add_column(column, justify="right", no_wrap=True)
        folder = _common_folder([source for _, source, _ in self.tallies()])
        for split, source, tally in self.tallies():
            counts = [f"{tally.read:,}", f"{tally.kept:,}", f"{tally.read - tally.kept:,}"]
            # As Text, because names may have [brackets].
            table.add_row(*map(Text, [split, source.removeprefix(folder), *counts]))
            for reason, cause in tally.by_count():
                first = f"{reason}, first {cause.first[0].within(source)}"
                table.add_row("", Padding(Text(first), INDENT), "", "", f"{cause.count:,}")
            for reason, cause in tally.shared.items():
                first = f"{reason}, first {cause.first[0].within(source)}"
                table.add_row("", Padding(Text(first), INDENT), "", f"{cause.count:,}", "")
            if tally.truncated:
                table.add_row(
                    "", Padding(Text("truncated"), INDENT), "", f"{tally.truncated:,}", ""
                )
        return table

    def to_json(self) -> str:
        """Return the content of ledger.json."""
        content = {
            split: {
                source: {"read": tally.read, **asdict(tally)} for source, tally in sources.items()
            }
            for split, sources in self._splits.items()
        }
        return json.dumps(content, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        """Read ledger.json; raises RunError where it is damaged."""
        ledger = cls()
        try:
            for split, sources in json.loads(text).items():
                for source, content in sources.items():
                    ledger._splits.setdefault(split, {})[source] = _tally_from(content)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunError(f"the ledger cannot be read ({error}).") from None
        return ledger

    def renamed(self, new_paths: Mapping[str, str]) -> "Ledger":
        """Return the ledger with other paths of the same files."""
        ledger = Ledger()
        for split, source, tally in self.tallies():
            name = _new_name(source, new_paths)
            sources = ledger._splits.setdefault(split, {})
            sources[source if name in sources else name] = _with_paths(tally, new_paths)
        return ledger

    def _tally(self, split: str, source: str) -> Tally:
        return self._splits.setdefault(split, {}).setdefault(source, Tally())


def _count(causes: dict[str, Cause], rejected: Rejected, n: int, texts: Sequence[str] = ()) -> None:
    """Add n lines to their cause, and the first of them as an example."""
    cause = causes.setdefault(rejected.reason, Cause())
    cause.count += n
    if len(cause.first) < FIRST:
        excerpt = " | ".join(quote(text, width=40) for text in texts)
        cause.first.append(DroppedLine(*rejected.location, shortened(rejected.detail), excerpt))


def _common_folder(sources: Sequence[str]) -> str:
    """Return the folder that the paths of several sources begin with, and a separator."""
    if len(set(sources)) < 2 or not all(map(os.path.isabs, sources)):
        return ""
    return os.path.commonpath([str(Path(source).parent) for source in sources]) + os.sep


def _tally_from(content: dict[str, Any]) -> Tally:
    dropped, shared = (
        {
            reason: Cause(cause["count"], [DroppedLine(**line) for line in cause["first"]])
            for reason, cause in content.get(column, {}).items()
        }
        for column in ("dropped", "shared")
    )
    needed = {int(length): lines for length, lines in content.get("needed", {}).items()}
    tally = Tally(content["kept"], dropped, content.get("truncated", 0), shared, needed)
    if tally.read != content["read"]:
        raise ValueError(f"{content['read']} lines were read and {tally.read} accounted for")
    return tally


def _new_name(source: str, new_paths: Mapping[str, str]) -> str:
    """Return the name of a source, a path or "path and 3 more", with the new path."""
    for old in sorted(new_paths, key=len, reverse=True):
        if source == old or source.startswith(f"{old} and "):
            return new_paths[old] + source.removeprefix(old)
    return source


def _with_paths(tally: Tally, new_paths: Mapping[str, str]) -> Tally:
    dropped, shared = (
        {
            reason: Cause(
                cause.count,
                [replace(line, file=new_paths.get(line.file, line.file)) for line in cause.first],
            )
            for reason, cause in causes.items()
        }
        for causes in (tally.dropped, tally.shared)
    )
    return replace(tally, dropped=dropped, shared=shared)


def _main_cause(tally: Tally) -> tuple[str, str]:
    """Return the largest cause and its description; intended causes only if there is no other."""
    causes = sorted(tally.by_count(), key=lambda item: item[0] in INTENDED)
    if not causes:
        return "", "there is no text in it"
    reason, cause = causes[0]
    return reason, f"most ({cause.count:,}) for {reason}, first {cause.first[0]}"
