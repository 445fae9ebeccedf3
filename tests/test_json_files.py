"""JSON from a user's disk: every kind of damage is one sentence that names the file."""

from pathlib import Path

import pytest
from pydantic import Field

from regard.errors import DataError, RunError
from regard.json_files import JsonSpec, parse_json, read_json, validate_json


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a": 1, "a": 2}',
        b"[NaN]",
        b"[-Infinity]",
        b"[1e400]",
        b"[" * 100_000 + b"]" * 100_000,
        b"[" + b"9" * 5000 + b"]",
        b'["\xff"]',
        b'["\\ud800"]',
        b'{"\\udfff": 1}',
        b'["\x00"]',
    ],
)
def test_damage_is_one_sentence(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(DataError, match=r"x\.json: ") as caught:
        read_json(tmp_path / "x.json", error=DataError)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


def test_what_other_readers_accept_is_read_where_it_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"\xef\xbb\xbf" + '["é", "\\ud83e\\udd8a"]'.encode())
    assert read_json(tmp_path / "x.json") == ["é", "🦊"]
    assert parse_json("[Infinity]", "here", finite=False) == [float("inf")]


def test_large_files_are_refused_before_they_are_read(tmp_path: Path) -> None:
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(1 << 40)  # a hole: it has no blocks on the disk
    with pytest.raises(RunError, match="has 1,099,511,627,776 bytes and may have at most 1,000"):
        read_json(tmp_path / "x.json", max_bytes=1000)
    with pytest.raises(RunError, match="cannot be read"):
        read_json(tmp_path)


class Described(JsonSpec):
    """A number and names."""

    number: int
    names: list[str] = Field(default_factory=list)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "here: number: field required"),
        ({"number": "1"}, r"here: number: input should be a valid integer \(given: '1'\)"),
        ({"number": True}, "here: number: input should be a valid integer"),
        ({"number": 1.0}, "here: number: input should be a valid integer"),
        ({"number": 1, "names": [1]}, r"here: names\.0: input should be a valid string"),
        ([], "here: input should be a valid dictionary"),
        ({"number": "x" * 10_000}, "here: number: .{,200}$"),
    ],
)
def test_values_of_another_type_are_named(content: object, message: str) -> None:
    with pytest.raises(RunError, match=message):
        validate_json(Described, content, "here")


def test_other_keys_are_left_alone() -> None:
    assert validate_json(Described, {"number": 10**30, "other": 1}, "here").number == 10**30
