"""Ratings are read from both formats; errors name the line."""

import gzip
from pathlib import Path

import pytest
import torch

from regard.errors import DataError
from regard.lab.ratings import Ratings, generated, read

LINES = [f"{user}\t{film}\t{1 + (user + film) % 5}" for user in range(10) for film in range(12)]


def test_both_formats_give_the_same_ratings(tmp_path: Path) -> None:
    tabs, commas = tmp_path / "u.data.gz", tmp_path / "ratings.csv"
    tabs.write_bytes(gzip.compress("\n".join(f"{line}\t881250949" for line in LINES).encode()))
    rows = [line.replace("\t", ",") + ".0,7" for line in LINES]
    commas.write_text("\n".join(["userId,movieId,rating,timestamp", *rows]) + "\n", "utf-8")
    from_tabs, from_commas = read(tabs), read(commas)
    assert all(torch.equal(a, b) for a, b in zip(from_tabs, from_commas, strict=True))
    assert from_tabs.stars[:3].tolist() == [1.0, 2.0, 3.0]
    assert from_tabs.users[-1] == 9


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\t2", "line 3: not a rating"),
        ("1,2,3", "line 3: not a rating"),
        ("", "line 3: not a rating"),
        ("a\tb\tgood", "line 3: 'good' is not a number"),
        ("a\tb\tnan", "line 3: 'nan' is not a number"),
        ("0\t1\t3", "line 3: 0 has rated 1 before"),
    ],
)
def test_errors_name_the_invalid_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "ratings"
    path.write_text("\n".join([*LINES[:2], line, *LINES[2:]]), "utf-8")
    with pytest.raises(DataError, match=message):
        read(path)


def test_missing_files_and_too_few_ratings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ratings"
    with pytest.raises(DataError, match="cannot be read"):
        read(path)
    path.write_text("1\t2\t3\n", "utf-8")
    with pytest.raises(DataError, match="1 ratings are too few"):
        read(path)


def test_training_and_held_out_ratings_are_disjoint() -> None:
    rated = generated(1)
    assert set(rated.stars.tolist()) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    known, held_out = rated.split(3)
    pairs = [set(zip(r.users.tolist(), r.films.tolist(), strict=True)) for r in (known, held_out)]
    assert not pairs[0] & pairs[1]
    assert len(pairs[0] | pairs[1]) == len(rated.stars)
    again = generated(1)
    assert isinstance(again, Ratings)
    assert torch.equal(again.stars, rated.stars)
