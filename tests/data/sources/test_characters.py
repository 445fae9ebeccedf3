"""Odd characters and their names."""

import unicodedata

import pytest

from regard.data.sources.characters import LINE_END, ODD, SURROGATE, name, quote

ALL = "".join(map(chr, range(0x110000)))


def is_odd(character: str) -> bool:
    """Decide by Unicode categories; the pattern uses ranges."""
    code = ord(character)
    never_assigned = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    control = unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
    return (control and character not in "\t\n") or never_assigned or character in "\ufeff\ufffd"


def test_odd_pattern_matches_exactly_the_odd_characters() -> None:
    assert set(ODD.findall(ALL)) == set(filter(is_odd, ALL))


def test_line_ends_of_other_programs_are_odd() -> None:
    """Python is such a program."""
    ends = {character for character in ALL if len(f"a{character}b".splitlines()) == 2}
    assert ends - {"\n"} <= set(LINE_END.findall(ALL)) <= set(ODD.findall(ALL))


def test_surrogates_are_the_characters_that_utf8_cannot_encode() -> None:
    halves = set(SURROGATE.findall(ALL))
    assert len(halves) == 2048
    for character in halves:
        with pytest.raises(UnicodeEncodeError):
            character.encode()
    assert SURROGATE.sub("", ALL).encode()


@pytest.mark.parametrize(
    ("character", "called"),
    [
        ("\u2028", "U+2028 LINE SEPARATOR"),
        ("\x00", "U+0000 NULL"),
        ("\x01", "U+0001 CONTROL CHARACTER"),
        ("\x85", "U+0085 NEXT LINE"),
        ("\ufeff", "U+FEFF BYTE ORDER MARK"),
        ("\ud800", "U+D800 SURROGATE"),
        ("\U0010ffff", "U+10FFFF NONCHARACTER"),
        ("\ue000", "U+E000"),
    ],
)
def test_character_names(character: str, called: str) -> None:
    assert name(character) == called


def test_quote_is_one_line() -> None:
    assert quote("été\u2028\n\x1b[31m") == r"'été\u2028\n\x1b[31m'"
    assert quote("x" * 100, width=5) == "'xxxxx…'"
