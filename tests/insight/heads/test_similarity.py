"""Similarity of duplicate, disjoint and trained heads; classical scaling."""

import numpy as np
import pytest
import torch

from regard.insight.heads.divergence_over_training import similarities
from regard.insight.heads.head_activity import head_activity
from regard.insight.heads.head_names import attention
from regard.insight.heads.similarity import classical_scaling, divergences, similarity

from .conftest import make_duplicates


@pytest.mark.parametrize("kind", ["encoder-decoder", "language-model", "classifier", "encoder"])
def test_duplicates_are_equal_by_every_measure(make, kind: str) -> None:
    home = make(kind)
    model = home.loaded.model
    name = {"language-model": "decoder.blocks.0.attention", "encoder": "blocks.0.attention"}.get(
        kind, "encoder.blocks.0.attention"
    )
    make_duplicates(attention(model, name), 1, 3)
    measures = similarities(model, home.examples)
    like = measures["decoder" if kind == "language-model" else "encoder"]
    assert like.cosine[1, 3] == pytest.approx(1, abs=1e-5)
    assert like.divergence[1, 3] == pytest.approx(0, abs=1e-5)
    assert like.cka[1, 3] == pytest.approx(1, abs=1e-5)
    assert {str(head)[-3:] for head in like.nearest()} == {"1.2", "1.4"}
    assert like.divergence[1, 2] > 0.01
    assert like.cka[1, 2] < 0.99


def test_disjoint_heads_diverge_by_one_bit() -> None:
    weights = torch.eye(3)[:, None, :]  # three heads, one query, three words
    distances = divergences(weights)
    assert torch.allclose(distances, torch.ones(3, 3, dtype=torch.float64) - torch.eye(3))


def test_measures_are_symmetric_and_in_range(make) -> None:
    home = make("encoder-decoder")
    activities = [activity["cross"] for activity in head_activity(home.loaded.model, home.examples)]
    like = similarity(activities)
    for measure in (like.cosine, like.divergence, like.cka):
        assert np.allclose(measure, measure.T)
        assert measure.min() >= -1e-9
        assert measure.max() <= 1 + 1e-6
    assert like.within(like.cka) is not None
    assert like.across(like.cka) is not None


def test_classical_scaling_keeps_distances_on_a_plane() -> None:
    points = np.array([[0.0, 0], [3, 0], [0, 1], [-2, -2], [1, 1]])
    apart = ((points[:, None] - points[None]) ** 2).sum(-1)
    places = classical_scaling(apart)
    again = ((places[:, None] - places[None]) ** 2).sum(-1)
    assert np.allclose(apart, again)
    assert np.array_equal(places, classical_scaling(apart))


def test_trained_heads_differ_more_than_untrained_ones(learned) -> None:
    after, before = (
        similarities(model, learned.examples) for model in (learned.model, learned.before)
    )
    for kind in ("decoder", "cross"):
        one, other = after[kind], before[kind]
        assert one.overall(one.divergence) > other.overall(other.divergence)
