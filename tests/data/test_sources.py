"""Lines, pairs and where they stand when they are wrong."""

from pathlib import Path

import pytest

from regard.data.lines import decode_lines
from regard.data.sources import SourceSpec
from regard.data.sources.tsv import read_pairs
from regard.errors import ConfigError, DataError
from regard.training.recipe import make_recipe


def test_lines_end_at_newline_only() -> None:
    assert decode_lines("a\u2028b\r\nc\x0bd\n".encode(), "here") == ["a\u2028b", "c\x0bd"]
    assert decode_lines(b"", "here") == []
    assert decode_lines(b"a\n\nb", "here") == ["a", "", "b"]


def test_bytes_that_are_not_utf8_are_named() -> None:
    with pytest.raises(DataError, match=r"here, line 2: byte 3 \(0xe9\) is not valid UTF-8"):
        decode_lines(b"ok\nab\xe9", "here")


@pytest.mark.parametrize("line", ["one column", "three\tcolumns\there", "\tempty side", "empty\t "])
def test_a_bad_pair_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "pairs.tsv").write_text(f"bon\tgood\n{line}\n")
    with pytest.raises(DataError, match=r"pairs\.tsv, line 2: expected two columns"):
        read_pairs(tmp_path / "pairs.tsv")


def test_an_empty_or_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("")
    with pytest.raises(DataError, match=r"pairs\.tsv: the file is empty"):
        read_pairs(tmp_path / "pairs.tsv")
    with pytest.raises(DataError, match="No such file"):
        read_pairs(tmp_path / "nowhere.tsv")


def test_tsv_is_a_source(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("le chat\tthe cat\nle chien\tthe dog\n")
    given = {"kind": "tsv", "train": str(tmp_path / "pairs.tsv"), "languages": ["fr", "en"]}
    given["held_out"] = given["train"]
    text = SourceSpec.model_validate(given).read()
    assert text.train == [("le chat", "the cat"), ("le chien", "the dog")]
    assert text.languages == ("fr", "en")


def test_the_grammar_is_a_source() -> None:
    text = SourceSpec.model_validate({"kind": "grammar", "train": 200, "held_out": 20}).read()
    assert (len(text.train), len(text.held_out)) == (200, 20)
    assert not set(text.train) & set(text.held_out)
    assert "200 French–English pairs" in text.about


def test_more_than_the_grammar_can_give_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.train: input should be less than or equal to"):
        make_recipe(
            {"data": {"kind": "grammar", "train": 10**9}, "model": "encoder-decoder"}, (), "recipe"
        )
