"""What a recipe takes over from another run."""

import pytest

from regard.models.base import ModelSpec
from regard.training.init.config import _next_of_kin


@pytest.mark.parametrize(
    ("theirs", "does", "kind"),
    [
        ("encoder", "classify", "classifier"),
        ("masked-lm", "continue text", "language-model"),
        ("language-model", "fill", "masked-lm"),
        ("encoder-decoder", "translate", "encoder-decoder"),
        ("recurrent", "classify", "recurrent"),
        ("convolutional", "translate", "recurrent"),
    ],
)
def test_a_model_is_followed_by_its_next_of_kin(theirs: str, does: str, kind: str) -> None:
    assert _next_of_kin(ModelSpec.model_validate({"kind": theirs}), does) == kind
