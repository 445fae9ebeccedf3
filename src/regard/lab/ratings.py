"""Who gave which film how many stars: read from a file, or planted, so that tastes are known.

196<TAB>242<TAB>3<TAB>881250949       as MovieLens has it; the time may be left out
userId,movieId,rating,timestamp       or with commas, below a line of names
"""

import math
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from regard.data.sources.lines import stream_text
from regard.errors import DataError
from regard.lab.experiment import generator

NAMES = ["userId", "movieId", "rating"]
FEWEST = 100  # of which a part can be held out and say anything


class Ratings(NamedTuple):
    """One each, (N,): persons and films are numbered from 0."""

    persons: Tensor
    films: Tensor
    stars: Tensor

    def some(self, chosen: Tensor) -> "Ratings":
        return Ratings(*(each[chosen] for each in self))

    def split(self, *chance: int, share: float = 0.2) -> tuple["Ratings", "Ratings"]:
        """What to learn from, and what is held out."""
        order = torch.randperm(len(self.stars), generator=generator(*chance))
        kept = round(share * len(order))
        return self.some(order[kept:]), self.some(order[:kept])


def planted(
    *chance: int, persons: int = 300, films: int = 200, traits: int = 3, share: float = 0.2
) -> Ratings:
    """One to five stars by tastes · traits, with a mean, leanings of both sides, and noise."""
    drawing = generator(*chance)
    tastes, own = (torch.randn(many, traits, generator=drawing) for many in (persons, films))
    kindness, quality = (0.4 * torch.randn(many, generator=drawing) for many in (persons, films))
    liked = 3.5 + kindness[:, None] + quality + 0.5 * tastes @ own.T
    liked = liked + 0.4 * torch.randn(persons, films, generator=drawing)
    given = torch.rand(persons, films, generator=drawing) < share
    who, what = given.nonzero(as_tuple=True)
    return Ratings(who, what, liked.round().clamp(1, 5)[given])


def read(path: Path) -> Ratings:
    """The ratings of a file, plain or gzip; a line that is none is refused."""
    persons: dict[str, int] = {}
    films: dict[str, int] = {}
    found: dict[tuple[int, int], float] = {}
    sign = "\t"
    for number, line in enumerate(stream_text(path), start=1):
        if number == 1 and line.split(",")[:3] == NAMES:
            sign = ","
            continue
        where = f"{path}, line {number}"
        person, film, stars = _rating(line.split(sign), where)
        pair = persons.setdefault(person, len(persons)), films.setdefault(film, len(films))
        if pair in found:
            raise DataError(f"{where}: {person} has rated {film} before; keep one of the two.")
        found[pair] = stars
    if len(found) < FEWEST:
        raise DataError(f"{path}: has {len(found)} ratings, too few; give at least {FEWEST}.")
    who, what = torch.tensor(list(found)).unbind(1)
    return Ratings(who, what, torch.tensor(list(found.values())))


def _rating(cells: list[str], where: str) -> tuple[str, str, float]:
    if len(cells) not in (3, 4) or not all(cells[:2]):
        raise DataError(
            f"{where}: is no rating; write user<TAB>film<TAB>stars, or userId,movieId,rating with "
            f"these names in the first line."
        )
    try:
        stars = float(cells[2])
    except ValueError:
        stars = math.nan
    if not math.isfinite(stars):
        raise DataError(f"{where}: '{cells[2]}' is no number of stars; mend the line.")
    return cells[0], cells[1], stars
