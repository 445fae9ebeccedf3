"""A folder of output appears whole; files that are not replaced are never removed."""

from pathlib import Path

import pytest

from regard.errors import OutputError
from regard.output_folder import output_folder


def write(folder: Path, text: str, overwrite: bool = False, name: str = "a") -> None:
    with output_folder(folder, overwrite) as new:
        (new / name).write_text(text)


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match="out: cannot be written"),
        output_folder(tmp_path / "out") as new,
    ):
        (new / "nowhere" / "a").write_text("1")
    assert not list(tmp_path.iterdir())
    write(tmp_path / "out", "1")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_content_is_replaced_only_with_overwrite(tmp_path: Path) -> None:
    write(tmp_path / "out", "1")
    with pytest.raises(OutputError, match=r"has files already; .* --overwrite"):
        write(tmp_path / "out", "2")
    assert (tmp_path / "out" / "a").read_text() == "1"
    write(tmp_path / "out", "2", overwrite=True)
    assert (tmp_path / "out" / "a").read_text() == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_files_that_are_not_replaced_are_not_removed(tmp_path: Path) -> None:
    write(tmp_path / "out", "1", name="precious")
    with pytest.raises(OutputError, match="precious: would be lost"):
        write(tmp_path / "out", "2", overwrite=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious"]
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is not a folder"):
        write(tmp_path / "file", "2", overwrite=True)


def test_leftovers_of_a_killed_process_are_replaced(tmp_path: Path) -> None:
    (tmp_path / ".out.partial" / "new").mkdir(parents=True)
    (tmp_path / ".out.partial" / "new" / "half").touch()
    write(tmp_path / "out", "1")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]
