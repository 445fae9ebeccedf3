"""Ratings are read as they stand, or refused with the line that is wrong."""

import gzip
from pathlib import Path

import pytest
import torch

from regard.errors import DataError
from regard.lab.ratings import Ratings, planted, read

LINES = [
    f"{person}\t{film}\t{1 + (person + film) % 5}" for person in range(10) for film in range(12)
]


def test_both_ways_of_writing_say_the_same(tmp_path: Path) -> None:
    tabs, commas = tmp_path / "u.data.gz", tmp_path / "ratings.csv"
    tabs.write_bytes(gzip.compress("\n".join(f"{line}\t881250949" for line in LINES).encode()))
    below = [line.replace("\t", ",") + ".0,7" for line in LINES]
    commas.write_text("\n".join(["userId,movieId,rating,timestamp", *below]) + "\n", "utf-8")
    one, other = read(tabs), read(commas)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert one.stars[:3].tolist() == [1.0, 2.0, 3.0]
    assert one.persons[-1] == 9


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1\t2", "line 3: is no rating"),
        ("1,2,3", "line 3: is no rating"),
        ("", "line 3: is no rating"),
        ("a\tb\tgood", "line 3: 'good' is no number"),
        ("a\tb\tnan", "line 3: 'nan' is no number"),
        ("0\t1\t3", "line 3: 0 has rated 1 before"),
    ],
)
def test_what_is_no_rating_is_refused_by_its_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "ratings"
    path.write_text("\n".join([*LINES[:2], line, *LINES[2:]]), "utf-8")
    with pytest.raises(DataError, match=said):
        read(path)


def test_too_few_and_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ratings"
    with pytest.raises(DataError, match="cannot be read"):
        read(path)
    path.write_text("1\t2\t3\n", "utf-8")
    with pytest.raises(DataError, match="has 1 ratings, too few"):
        read(path)


def test_what_is_held_out_is_not_learned_from() -> None:
    rated = planted(1)
    assert set(rated.stars.tolist()) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    known, held_out = rated.split(3)
    pairs = [set(zip(r.persons.tolist(), r.films.tolist(), strict=True)) for r in (known, held_out)]
    assert not pairs[0] & pairs[1]
    assert len(pairs[0] | pairs[1]) == len(rated.stars)
    again = planted(1)
    assert isinstance(again, Ratings)
    assert torch.equal(again.stars, rated.stars)
