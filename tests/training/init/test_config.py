"""What a recipe takes over from another run."""

import pytest

from regard.models.base import Capability, ModelSpec
from regard.training.init.config import _closest_kind


@pytest.mark.parametrize(
    ("theirs", "requires", "kind"),
    [
        ("encoder", "sequence-classification", "classifier"),
        ("masked-lm", "causal-lm", "language-model"),
        ("language-model", "masked-lm", "masked-lm"),
        ("encoder-decoder", "seq2seq", "encoder-decoder"),
        ("recurrent", "sequence-classification", "recurrent"),
        ("convolutional", "seq2seq", "recurrent"),
    ],
)
def test_a_model_is_followed_by_its_next_of_kin(
    theirs: str, requires: Capability, kind: str
) -> None:
    assert _closest_kind(ModelSpec.model_validate({"kind": theirs}), requires) == kind
