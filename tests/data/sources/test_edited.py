"""Sources whose texts are edited."""

import re
from pathlib import Path

import pytest
from tests.data.sources.reading import FR_EN, pairs, read, source, write

from regard.config import plain, validate
from regard.data.records import Record, Rejected
from regard.data.sources.base import SourceSpec
from regard.data.sources.text_edits import detokenize
from regard.errors import ConfigError


@pytest.fixture
def tsv(tmp_path: Path) -> dict[str, object]:
    """Return a source of three lines, of which one is no pair."""
    path = write(tmp_path / "pairs.tsv", "Où est l’œuf ?\tWhere is the egg?\nx\nÇa va.\tOK.\n")
    return {"kind": "tsv", "path": path, **FR_EN}


def test_edits_are_made_on_the_sides_that_are_named(tsv: dict[str, object]) -> None:
    lines = read(
        kind="edited",
        source=tsv,
        sides=["fr"],
        edits=["strip_accents", "lowercase", "strip_final_punctuation"],
    )
    first, rejected, last = lines
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(rejected, Rejected)
    assert first.texts == ("ou est l'oeuf", "Where is the egg?")
    assert last.texts == ("ca va", "OK.")


def test_both_sides_are_edited_by_default(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", "OUI !\tYES!\n")
    spec = {"kind": "tsv", "path": path, **FR_EN}
    assert pairs(kind="edited", source=spec, edits=["lowercase"]) == [("oui !", "yes!")]


def test_a_text_of_punctuation_alone_stays(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", "…\t...\n")
    spec = {"kind": "tsv", "path": path, **FR_EN}
    assert pairs(kind="edited", source=spec, edits=["strip_final_punctuation"]) == [("…", "...")]


@pytest.mark.parametrize(
    ("language", "tokenized", "text"),
    [
        (
            "fr",
            "L' homme dit : \" Oui ! \" , puis s' en alla .",
            "L'homme dit : \"Oui !\", puis s'en alla.",
        ),
        ("fr", "Quelqu' un ( lui ) dit -il .", "Quelqu'un (lui) dit-il."),
        ("en", "He did n't say : \" I 'm late ! \"", "He didn't say: \"I'm late!\""),
        ("en", "' What is it ? ' thought Alice .", "'What is it?' thought Alice."),
        ("en", "The dog 's tail , Mr. Fox .", "The dog's tail, Mr. Fox."),
    ],
)
def test_tokens_are_joined_as_they_are_printed(language: str, tokenized: str, text: str) -> None:
    assert detokenize(tokenized, language) == text


def test_the_source_decides_languages_directions_and_files(tsv: dict[str, object]) -> None:
    spec = source(kind="edited", source={**tsv, "directions": ["fr-en"]}, edits=["lowercase"])
    assert spec.language_pair == ("fr", "en")
    assert spec.source_sides == (0,)
    assert [str(file) for file in spec.files()] == [tsv["path"]]
    assert validate(SourceSpec, plain(spec), "recipe") == spec


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"edits": []}, "edits"),
        ({"edits": ["uppercase"]}, "edits"),
        ({"edits": ["lowercase"], "sides": ["de"]}, "there are: fr and en"),
    ],
)
def test_wrong_settings_are_refused(
    tsv: dict[str, object], settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        source(kind="edited", source=tsv, **settings)


def test_the_inner_source_has_pairs_and_no_weight(tsv: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give the weight beside the edits"):
        source(kind="edited", source={**tsv, "weight": 2}, edits=["lowercase"])
    text = {"kind": "text", "path": write(tmp_path / "a.txt", "a\n")}
    with pytest.raises(ConfigError, match="only pairs can be edited"):
        source(kind="edited", source=text, edits=["lowercase"])


def test_numbers_of_both_texts_are_replaced_by_the_same_random_ones(tmp_path: Path) -> None:
    lines = [
        ("Ils ont trois chats et 25 poules.", "They have three cats and 25 hens."),
        ("Il a vingt et un ans.", "He is twenty-one years old."),  # other numbers alone
        ("Il y a 1 chat.", "There is 1 cat."),  # no plural
        ("Le 12e jour, à 10h30.", "The 12th day, at 10:30."),  # other numbers alone
        ("Deux et deux font quatre.", "Two and two is four."),
    ]
    path = write(tmp_path / "pairs.tsv", "".join(f"{fr}\t{en}\n" for fr, en in lines))
    spec = {"kind": "tsv", "path": path, **FR_EN}
    edited = pairs(kind="edited", source=spec, edits=["random_numbers"])
    assert edited == pairs(kind="edited", source=spec, edits=["random_numbers"])
    assert edited[1:4] == lines[1:4]
    for (fr, en), (french, english) in zip(edited, lines, strict=True):
        assert re.findall(r"\d+", fr) == re.findall(r"\d+", en) or fr == french, english
    (three, twenty_five), (two, again, four) = (
        re.findall(r"\d+", edited[row][1]) for row in (0, 4)
    )
    assert two == again != four
    assert (three, twenty_five) != ("3", "25")
    assert edited[0][0] == f"Ils ont {three} chats et {twenty_five} poules."
    assert int(three) > 1


def test_random_numbers_need_both_sides(tsv: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="random_numbers edits both texts"):
        source(kind="edited", source=tsv, sides=["fr"], edits=["random_numbers"])
