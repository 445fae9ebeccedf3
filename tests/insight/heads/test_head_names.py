"""Names of heads, and errors for unknown ones."""

import pytest

from regard.errors import ConfigError
from regard.insight.heads.head_names import by_kind, find_head, heads_of, units

from .conftest import built


def test_names_of_heads() -> None:
    model = built("encoder-decoder")
    assert {kind: len(heads) for kind, heads in by_kind(model).items()} == {
        "encoder": 8,
        "decoder": 8,
        "cross": 8,
    }
    assert str(heads_of(model)[5]) == "encoder.2.2"
    assert find_head(model, "cross.2.4").module == "decoder.blocks.1.cross"
    assert [str(head) for head in heads_of(built("encoder"))][-1] == "encoder.2.4"
    assert str(next(iter(heads_of(built("language-model"))))) == "decoder.1.1"


@pytest.mark.parametrize(("kv_heads", "size"), [(None, 1), (4, 1), (2, 2), (1, 1)])
def test_units_are_heads_that_share_keys(kv_heads: int | None, size: int) -> None:
    model = built("language-model", kv_heads=kv_heads)
    assert {len(unit) for unit in units(model)} == {size}


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("encoder.9.1", "no head encoder.9.1: encoder has layers 1 to 2"),
        ("encoder.1.9", "no head encoder.1.9: layer 1 of encoder has heads 1 to 4"),
        ("encoder.0.1", "layers 1 to 2"),
        ("cross.1.1", "is not a head: write kind.layer.head, as encoder.1.1; kinds here: encoder"),
        ("encoder.1", "is not a head"),
    ],
)
def test_unknown_heads_are_refused(name: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint.replace(".", r"\.")):
        find_head(built("classifier"), name)
