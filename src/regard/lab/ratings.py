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
    """Ratings (N,): users and films are numbered from 0."""

    users: Tensor
    films: Tensor
    stars: Tensor

    def some(self, indices: Tensor) -> "Ratings":
        """Return the ratings at these indices."""
        return Ratings(*(column[indices] for column in self))

    def split(self, *seed: int, share: float = 0.2) -> tuple["Ratings", "Ratings"]:
        """Split into training and held-out ratings."""
        order = torch.randperm(len(self.stars), generator=generator(*seed))
        held_out = round(share * len(order))
        return self.some(order[held_out:]), self.some(order[:held_out])


def generated(
    *seed: int, users: int = 300, films: int = 200, rank: int = 3, share: float = 0.2
) -> Ratings:
    """Generate 1 to 5 stars: mean + biases + user factors · film factors + noise."""
    rng = generator(*seed)
    user_factors, film_factors = (
        torch.randn(count, rank, generator=rng) for count in (users, films)
    )
    user_bias, film_bias = (0.4 * torch.randn(count, generator=rng) for count in (users, films))
    stars = 3.5 + user_bias[:, None] + film_bias + 0.5 * user_factors @ film_factors.T
    stars = stars + 0.4 * torch.randn(users, films, generator=rng)
    is_rated = torch.rand(users, films, generator=rng) < share
    rated_by, rated_films = is_rated.nonzero(as_tuple=True)
    return Ratings(rated_by, rated_films, stars.round().clamp(1, 5)[is_rated])


def read(path: Path) -> Ratings:
    """Read the ratings of a file, plain or gzip; raises DataError for an invalid line."""
    users: dict[str, int] = {}
    films: dict[str, int] = {}
    ratings: dict[tuple[int, int], float] = {}
    separator = "\t"
    for number, line in enumerate(stream_text(path), start=1):
        if number == 1 and line.split(",")[:3] == HEADER:
            separator = ","
            continue
        where = f"{path}, line {number}"
        user, film, stars = _rating(line.split(separator), where)
        pair = users.setdefault(user, len(users)), films.setdefault(film, len(films))
        if pair in ratings:
            raise DataError(f"{where}: {user} has rated {film} before; remove one of the lines.")
        ratings[pair] = stars
    if len(ratings) < MIN_RATINGS:
        raise DataError(f"{path}: {len(ratings)} ratings are too few; give at least {MIN_RATINGS}.")
    user_ids, film_ids = torch.tensor(list(ratings)).unbind(1)
    return Ratings(user_ids, film_ids, torch.tensor(list(ratings.values())))


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
