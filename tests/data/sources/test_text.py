"""Running text."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.sources.reading import any_fixture, pairs, read, source, write

from regard.data.records import Location, Record, Rejected
from regard.data.sources import text
from regard.errors import ConfigError, DataError

TEXT = "one\n two\n\n \n\nthree\u2028\nfour"


def documents(path: Any, ending: str) -> list[str]:
    """Restore documents from their records."""
    found, open_one = [], ""
    for line in read(kind="text", path=path, documents=ending):
        assert isinstance(line, Record)
        open_one += line.texts[0]
        if line.ends_document:
            found.append(open_one)
            open_one = ""
    assert not open_one
    return found


def test_text_documents_end_at_file_line_or_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", TEXT)
    assert documents(path, "file") == [TEXT]
    assert documents(path, "line") == ["one", " two", "three\u2028", "four"]
    assert documents(path, "blank") == ["one\n two\n", "three\u2028\nfour"]


@any_fixture
@given(st.text(st.sampled_from("ab \n\u2028é"), max_size=60), st.integers(1, 9))
def test_text_is_restored_from_its_records(tmp_path: Path, content: str, chunk: int) -> None:
    path = write(tmp_path / "a.txt", content)
    kept = [line for line in content.split("\n") if line and not line.isspace()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "CHUNK", chunk)
        assert "".join(documents(path, "file")) == content
        assert documents(path, "line") == kept
        blank = "".join(documents(path, "blank"))
        assert [line for line in blank.split("\n") if line] == kept
        for (here,) in pairs(kind="text", path=path):
            assert len(here) <= chunk or "\n" not in here[:-1]
            assert "\u2028" not in here or "\n" not in here[:-1]


@any_fixture
@given(
    st.lists(st.text(st.sampled_from("ab \n\u2028é"), max_size=30), min_size=1, max_size=3),
    st.floats(0.05, 0.95),
)
def test_text_fraction_equals_python_slicing(
    tmp_path: Path, contents: list[str], share: float
) -> None:
    paths = [write(tmp_path / f"{n}.txt", content) for n, content in enumerate(contents)]
    whole = "".join(contents)
    cut = int(len(whole) * share)
    first, rest = (
        "".join(text for (text,) in pairs(kind="text", path=paths, fraction=part))
        for part in ([0, share], [share, 1])
    )
    assert (first, rest) == (whole[:cut], whole[cut:])


def test_text_fraction_ends_a_document_and_has_line_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"one\r\ntwo\nth\xffee\n")  # 4 + 4 + 6 characters
    assert read(kind="text", path=path, fraction=[0, 0.5]) == [
        Record(Location(path, 1), ("one\ntwo",))
    ]
    assert read(kind="text", path=path, fraction=[0.5, 1]) == [
        Rejected(Location(path, 3), "invalid UTF-8", "byte 3 is 0xff"),
        Record(Location(path, 2), ("\n",)),
    ]


@pytest.mark.parametrize("part", [[0.9, 0.1], [0, 1.5], [-0.1, 1], [0.5, 0.5], [0.5], "half"])
def test_invalid_text_fraction_is_refused(part: Any) -> None:
    with pytest.raises(ConfigError, match="fraction"):
        source(kind="text", path="a.txt", fraction=part)


def test_shakespeare_fractions_are_the_usual_split(shared_data: Path) -> None:
    path = shared_data / "tinyshakespeare" / "input.txt"
    data = path.read_text(encoding="utf-8")
    n = len(data)
    parts = [
        "".join(text for (text,) in pairs(kind="text", path=path, fraction=part))
        for part in ([0, 0.9], [0.9, 1])
    ]
    assert parts == [data[: int(n * 0.9)], data[int(n * 0.9) :]]
    assert [len(part) for part in parts] == [1_003_854, 111_540]


def test_text_records_have_locations_and_line_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "word\n" * 30_000)
    records = [line for line in read(kind="text", path=path) if isinstance(line, Record)]
    assert max(len(record.texts[0]) for record in records) <= 2**16
    assert [record.ends_document for record in records] == [False, False, True]
    assert sum(record.lines for record in records) == 30_000
    next_line = 1
    for record in records:
        assert record.location == Location(path, next_line)
        next_line += record.lines


def test_text_rejects_only_the_invalid_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"one\n\xff\r\ntwo\r\n")
    assert read(kind="text", path=path) == [
        Rejected(Location(path, 2), "invalid UTF-8", "byte 1 is 0xff"),
        Record(Location(path, 1), ("one\ntwo\n",)),
    ]


def test_text_reads_files_folders_and_patterns(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c/d.txt", "c/.hidden", "e.md", "[1].txt"):
        write(tmp_path / name, name)
    assert documents(tmp_path, "file") == ["[1].txt", "a.txt", "b.txt", "c/d.txt", "e.md"]
    assert documents(tmp_path / "*.txt", "file") == ["[1].txt", "a.txt", "b.txt"]
    assert documents(tmp_path / "**" / "d*", "file") == ["c/d.txt"]
    assert documents(tmp_path / "[1].txt", "file") == ["[1].txt"]
    assert documents([tmp_path / "e.md", tmp_path / "c"], "file") == ["e.md", "c/d.txt"]
    with pytest.raises(DataError, match=r"\*\.nothing: no file or folder matches this pattern"):
        read(kind="text", path=tmp_path / "*.nothing")


def test_text_pattern_relative_to_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "notes" / "a.txt", "a")
    monkeypatch.chdir(tmp_path)
    assert source(kind="text", path="notes/*.txt").files() == [Path("notes/a.txt")]


def test_real_text_is_restored_from_its_records(shared_data: Path) -> None:
    path = shared_data / "tinyshakespeare" / "input.txt"
    assert documents(path, "file") == [path.read_text(encoding="utf-8")]
    speeches = documents(path, "blank")
    assert speeches[0].startswith("First Citizen:\nBefore we proceed")
    assert len(speeches) > 7000
