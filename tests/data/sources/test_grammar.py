"""The bundled grammar as a source."""

import pytest
from tests.data.sources.reading import pairs, source

from regard.data.records import Location
from regard.errors import ConfigError


def test_grammar_yields_the_bundled_splits() -> None:
    sizes = {"train_size": 200, "dev_size": 20, "pronouns_size": 5}
    parts = {
        split: pairs(kind="grammar", split=split, **sizes) for split in ("train", "dev", "pronouns")
    }
    assert [len(each) for each in parts.values()] == [200, 20, 5]
    assert len(set().union(*parts.values())) == 225
    spec = source(kind="grammar", **sizes)
    assert spec.language_pair == ("fr", "en")
    assert next(spec.records()).location == Location("the bundled grammar", 1)


def test_grammar_refuses_impossible_sizes() -> None:
    with pytest.raises(ConfigError, match="train_size: input should be less than or equal to"):
        source(kind="grammar", train_size=10**9)
