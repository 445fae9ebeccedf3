"""Placeholders are found in a source and missed in a translation."""

from regard.predictors.placeholders import missing_placeholders, placeholders


def test_placeholders_are_found_and_compared() -> None:
    text = "See https://a.org/x?y=1, mail me@b.fr: {name} has %d of %(all)s &amp; <b>1,234.5</b>."
    kept = ["https://a.org/x?y=1", "me@b.fr", "{name}", "%d", "%(all)s", "&amp;"]
    assert placeholders(text) == [*kept, "<b>", "1,234.5", "</b>"]
    assert missing_placeholders("%s and %s", "et %s") == ["%s"]
    assert missing_placeholders("{a} 10", "10 {a}") == []
