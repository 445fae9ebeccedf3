"""Parallel files."""

from pathlib import Path
from typing import Any

import pytest
from tests.data.sources.reading import FR_EN, pairs, read, source, write

from regard.data.records import Location, Record, Rejected
from regard.errors import DataError


def aligned(tmp_path: Path, source: str | bytes, target: str | bytes) -> dict[str, Any]:
    given = {"source": write(tmp_path / "a.fr", source), "target": write(tmp_path / "a.en", target)}
    return {"kind": "files", **given, **FR_EN}


def test_files_pairs_lines_by_number(tmp_path: Path) -> None:
    given = aligned(tmp_path, "un\u2028\r\ndeux\n\n", "one\ntwo\nthree")
    place = str(tmp_path / "a.fr")
    assert read(**given) == [
        Record(Location(place, 1), ("un\u2028", "one")),
        Record(Location(place, 2), ("deux", "two")),
        Record(Location(place, 3), ("", "three")),
    ]
    assert source(**given).files() == [tmp_path / "a.fr", tmp_path / "a.en"]


def test_files_reports_the_file_of_invalid_utf8(tmp_path: Path) -> None:
    given = aligned(tmp_path, b"un\ndeux\n", b"one\n\xff\n")
    where = Location(str(tmp_path / "a.en"), 2)
    assert read(**given)[1] == Rejected(where, "invalid UTF-8", "byte 1 is 0xff")


@pytest.mark.parametrize(
    ("odd", "name"),
    [
        ("\u2028", "U+2028 LINE SEPARATOR"),
        ("\u2029", "U+2029 PARAGRAPH SEPARATOR"),
        ("\x85", "U+0085 NEXT LINE"),
        ("\x0b", "U+000B LINE TABULATION"),
        ("\x0c", "U+000C FORM FEED"),
        ("\x1d", "U+001D GROUP SEPARATOR"),
        ("\r", "U+000D CARRIAGE RETURN"),
        ("\x00", "U+0000 NULL"),
    ],
)
def test_misaligned_files_report_the_first_line_end_character(
    tmp_path: Path, odd: str, name: str
) -> None:
    """One file was split at the character and has a line more; the other still has it."""
    given = aligned(tmp_path, "un\r\nde\nux\r\ntrois\r\n", f"one\ntw{odd}o\nth{odd}ree\n")
    with pytest.raises(DataError) as caught:
        read(**given)
    said = str(caught.value).replace(f"{tmp_path}/", "")
    assert said.startswith("a.fr has 4 lines and a.en has 3: they are not parallel;")
    assert f"is {name} at character 3 of a.en, line 2, in the pair 'de' and 'tw" in said
    assert "\n" not in said
    assert odd not in said


def test_misaligned_files_without_line_end_character(tmp_path: Path) -> None:
    given = aligned(tmp_path, "un\ndeux\n", "one\ntwo\nthree\nfour\n")
    assert isinstance(next(source(**given).records()), Record)
    with pytest.raises(DataError, match=r"2 lines and .* has 4: .*; find the line that only one"):
        read(**given)


def test_multi30k_is_read(shared_data: Path) -> None:
    folder = shared_data / "multi30k"
    for language in ("fr", "de"):
        given = {"source": folder / f"val.{language}.gz", "target": folder / "val.en.gz"}
        read_pairs = pairs(kind="files", **given, languages=[language, "en"])
        assert len(read_pairs) == 1014
        assert read_pairs[0][1] == "A group of men are loading cotton onto a truck"
