"""Quality filters: which records are dropped, and with what reason."""

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.filters.quality import SETTINGS, SHORT, FiltersSpec, reject_reason
from regard.data.records import Location, Record, Rejected
from regard.data.sources.base import RecordType, SourceSpec

AT = Location("here", 7)
SPEC = FiltersSpec()


def why(*texts: str, record_type: RecordType = "pair", spec: FiltersSpec = SPEC) -> str:
    rejected = reject_reason(Record(AT, texts), spec, record_type)
    return rejected.reason if rejected else ""


@pytest.mark.parametrize(
    "pair",
    [
        ("Va !", "Go."),
        ("OK", "That is fine with me"),
        ("« Où\u00a0? »\u202f!", "“Where?”!"),
        ("Un deux\ttrois.\nQuatre.", "One two\tthree.\nFour."),
        ("你好世界,今天天气很好。", "Hello world, the weather today is really quite beautiful."),
        ("👩\u200d🚀 נָעִים", "\u00ad\u200b𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \ue000"),
    ],
)
def test_real_translations_are_kept(pair: tuple[str, str]) -> None:
    assert why(*pair) == ""


@pytest.mark.parametrize("empty", ["", " ", "\u00a0\t"])
def test_empty_text_is_dropped(empty: str) -> None:
    assert why("un", empty) == why(empty, "one") == "empty side"
    assert why(empty, "1", record_type="labeled") == "empty side"
    assert why(empty, record_type="text") == ""


def test_odd_character_is_reported_with_its_position() -> None:
    rejected = reject_reason(Record(AT, ("a b", "one two three fo\u2028ur")), SPEC, "pair")
    detail = "U+2028 LINE SEPARATOR at character 17 of the second side"
    assert rejected == Rejected(AT, "odd character", detail)


def test_odd_character_in_running_text_is_reported_with_its_line() -> None:
    rejected = reject_reason(Record(AT, ("one\n\ntwo \x00 three\nfour\n",)), SPEC, "text")
    detail = "U+0000 NULL at character 5 of the line"
    assert rejected == Rejected(Location("here", 9), "odd character", detail)


def test_odd_characters_can_be_kept_except_surrogates() -> None:
    keep_odd = FiltersSpec(odd_characters="keep")
    assert why("a\x00", "b\u2028", spec=keep_odd) == ""
    assert why("a", "\ud83d", spec=keep_odd) == "odd character"


def test_long_texts_are_dropped() -> None:
    spec = FiltersSpec(max_characters=30, max_ratio=3)
    assert why("x" * 30, "y" * 30, spec=spec) == ""
    assert why("x" * 31, "y" * 30, spec=spec) == "too long"
    assert why("x" * 30, "y" * 10, spec=spec) == ""
    assert why("x" * 9, "y" * 30, spec=spec) == "length ratio"
    assert why("x" * SHORT, "y", spec=spec) == ""
    assert why("x" * 30, "1", record_type="labeled", spec=spec) == ""
    assert why("x" * 99, record_type="text", spec=spec) == ""


@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_length_ratio_is_symmetric(first: str, second: str) -> None:
    assert bool(why(first, second)) == bool(why(second, first))


def test_reasons_name_existing_settings() -> None:
    assert set(SETTINGS.values()) <= set(FiltersSpec.model_fields)


@pytest.mark.parametrize(
    ("path", "languages"),
    [("tatoeba-fr-en/train.tsv.gz", ["fr", "en"]), ("python-docs-fr/en-fr.tsv.gz", ["en", "fr"])],
)
def test_filters_drop_little_of_a_real_corpus(
    shared_data: Path, path: str, languages: list[str]
) -> None:
    config = {"kind": "tsv", "path": shared_data / path, "languages": languages}
    lines = list(islice(SourceSpec.model_validate(config).records(), 20_000))
    assert all(isinstance(line, Record) for line in lines)
    dropped = [
        line for line in lines if isinstance(line, Rejected) or reject_reason(line, SPEC, "pair")
    ]
    assert len(dropped) < len(lines) / 1000
