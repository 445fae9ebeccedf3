"""Film ratings: read from a file, or generated from known user and film factors.

196<TAB>242<TAB>3<TAB>881250949       MovieLens 100K format; the timestamp may be left out
userId,movieId,rating,timestamp       or comma-separated with this header
"""

import math
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from regard.data.sources.lines import stream_text
from regard.errors import DataError
from regard.lab.experiment import generator

HEADER = ["userId", "movieId", "rating"]
MIN_RATINGS = 100


class Ratings(NamedTuple):
    """Ratings (N,): persons and films are numbered from 0."""

    persons: Tensor
    films: Tensor
    stars: Tensor

    def some(self, indices: Tensor) -> "Ratings":
        """Return the ratings at these indices."""
        return Ratings(*(column[indices] for column in self))

    def split(self, *chance: int, share: float = 0.2) -> tuple["Ratings", "Ratings"]:
        """Split into training and held-out ratings."""
        order = torch.randperm(len(self.stars), generator=generator(*chance))
        held_out = round(share * len(order))
        return self.some(order[held_out:]), self.some(order[:held_out])


def generated(
    *chance: int, persons: int = 300, films: int = 200, traits: int = 3, share: float = 0.2
) -> Ratings:
    """Generate 1 to 5 stars: mean + biases + user factors · film factors + noise."""
    drawing = generator(*chance)
    tastes, own = (torch.randn(many, traits, generator=drawing) for many in (persons, films))
    kindness, quality = (0.4 * torch.randn(many, generator=drawing) for many in (persons, films))
    liked = 3.5 + kindness[:, None] + quality + 0.5 * tastes @ own.T
    liked = liked + 0.4 * torch.randn(persons, films, generator=drawing)
    given = torch.rand(persons, films, generator=drawing) < share
    who, what = given.nonzero(as_tuple=True)
    return Ratings(who, what, liked.round().clamp(1, 5)[given])


def read(path: Path) -> Ratings:
    """Read the ratings of a file, plain or gzip; raises DataError for an invalid line."""
    persons: dict[str, int] = {}
    films: dict[str, int] = {}
    ratings: dict[tuple[int, int], float] = {}
    separator = "\t"
    for number, line in enumerate(stream_text(path), start=1):
        if number == 1 and line.split(",")[:3] == HEADER:
            separator = ","
            continue
        where = f"{path}, line {number}"
        person, film, stars = _rating(line.split(separator), where)
        pair = persons.setdefault(person, len(persons)), films.setdefault(film, len(films))
        if pair in ratings:
            raise DataError(f"{where}: {person} has rated {film} before; remove one of the lines.")
        ratings[pair] = stars
    if len(ratings) < MIN_RATINGS:
        raise DataError(f"{path}: {len(ratings)} ratings are too few; give at least {MIN_RATINGS}.")
    who, what = torch.tensor(list(ratings)).unbind(1)
    return Ratings(who, what, torch.tensor(list(ratings.values())))


def _rating(cells: list[str], where: str) -> tuple[str, str, float]:
    if len(cells) not in (3, 4) or not all(cells[:2]):
        raise DataError(
            f"{where}: not a rating; write user<TAB>film<TAB>stars, or userId,movieId,rating with "
            f"these names in the first line."
        )
    try:
        stars = float(cells[2])
    except ValueError:
        stars = math.nan
    if not math.isfinite(stars):
        raise DataError(f"{where}: '{cells[2]}' is not a number of stars; fix the line.")
    return cells[0], cells[1], stars
