"""Model kinds chosen for a recipe with `init`."""

import pytest

from regard.models.base import Capability, ModelSpec
from regard.training.init.config import _closest_kind


@pytest.mark.parametrize(
    ("initial_kind", "requires", "kind"),
    [
        ("encoder", "sequence-classification", "classifier"),
        ("masked-lm", "causal-lm", "language-model"),
        ("language-model", "masked-lm", "masked-lm"),
        ("encoder-decoder", "seq2seq", "encoder-decoder"),
        ("recurrent", "sequence-classification", "recurrent"),
        ("convolutional", "seq2seq", "recurrent"),
    ],
)
def test_the_closest_kind_with_the_capability_is_chosen(
    initial_kind: str, requires: Capability, kind: str
) -> None:
    assert _closest_kind(ModelSpec.model_validate({"kind": initial_kind}), requires) == kind
