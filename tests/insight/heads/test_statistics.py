"""Statistics and labels of known attention weights."""

import pytest
import torch

from regard.insight.heads.head_activity import AttentionContext, HeadActivity, head_activity
from regard.insight.heads.head_names import Head, by_kind
from regard.insight.heads.statistics import HeadStatistics, punctuation_of, statistics

LENGTH = 6
NOT = torch.zeros(10, dtype=torch.bool)


def looking_at(place: torch.Tensor, kind: str, lengths: tuple[int, ...]) -> HeadStatistics:
    """A head whose query i looks at place[i] alone."""
    weights = torch.nn.functional.one_hot(place.clamp(0), LENGTH).float()
    token_mask = torch.arange(LENGTH) < torch.tensor(lengths)[:, None]
    ids = torch.full((len(lengths), LENGTH), 5)
    ids[:, 2] = 7  # a comma
    comma = NOT.clone()
    comma[7] = True
    activity = HeadActivity(
        [Head("m", kind, 0, 0)],
        weights.expand(1, len(lengths), -1, -1),
        torch.zeros(1, len(lengths), LENGTH, 2),
        AttentionContext(token_mask, token_mask, ids, kind),
    )
    return statistics([activity], comma)[0]


HERE = torch.arange(LENGTH)


@pytest.mark.parametrize(
    ("place", "kind", "label", "distance"),
    [
        (HERE - 1, "decoder", "previous token", 1),
        (HERE, "encoder", "same token", 0),
        (torch.zeros_like(HERE), "encoder", "first token", None),
        (torch.full_like(HERE, 2), "encoder", "punctuation", None),
        (torch.full_like(HERE, 5), "cross", "end of text", None),
    ],
)
def test_label_is_the_dominant_target(
    place: torch.Tensor, kind: str, label: str, distance: float | None
) -> None:
    found = looking_at(place, kind, (6, 6))
    assert found.label == label
    assert found.entropy == pytest.approx(0, abs=1e-6)
    if distance is not None:
        assert found.distance == pytest.approx(distance)


def test_only_queries_with_several_keys_count() -> None:
    found = looking_at(HERE - 1, "decoder", (6, 3))
    assert found.shares["previous"] == 1
    assert found.shares["same"] == 0
    assert "next" not in found.shares
    backward = looking_at(HERE + 1 - LENGTH * (HERE == LENGTH - 1), "encoder", (6, 6))
    assert backward.shares["next"] == 1
    assert backward.label == "next token"


def test_cross_attention_has_no_distance() -> None:
    found = looking_at(HERE, "cross", (6,))
    assert found.distance is None
    assert set(found.shares) == {"first", "last", "punctuation"}


def test_uniform_attention_has_full_entropy_and_no_label() -> None:
    token_mask = torch.ones(1, 8, dtype=torch.bool)
    ids = torch.full((1, 8), 5)
    even = torch.full((1, 1, 8, 8), 1 / 8)
    attention_context = AttentionContext(token_mask, token_mask, ids, "encoder")
    activity = HeadActivity([Head("m", "encoder", 0, 0)], even, even, attention_context)
    (found,) = statistics([activity], NOT)
    assert found.entropy == pytest.approx(3)
    assert found.label == ""
    assert found.shares["first"] == pytest.approx(1 / 8)


def test_punctuation_tokens_have_no_letter(tokenizer) -> None:
    found = punctuation_of(tokenizer, len(tokenizer))
    named = {tokenizer.pieces([each])[0] for each in found.nonzero().flatten().tolist()}
    assert "." in named
    assert not any(char.isalnum() for piece in named for char in piece)
    assert "</s>" not in named


@pytest.mark.parametrize("kind", ["encoder-decoder", "language-model", "classifier", "encoder"])
def test_statistics_of_every_kind_of_model(make, kind: str) -> None:
    home = make(kind)
    for name, heads in by_kind(home.loaded.model).items():
        seen = [each[name] for each in head_activity(home.loaded.model, home.examples)]
        found = statistics(seen, torch.zeros(2000, dtype=torch.bool))
        assert [each.head for each in found] == heads
        assert all(each.entropy > 0 for each in found)
        assert all(0 <= share <= 1.0001 for each in found for share in each.shares.values())
