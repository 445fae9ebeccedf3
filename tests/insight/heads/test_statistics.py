"""Statistics and labels of known attention weights."""

import pytest
import torch

from regard.insight.heads.head_activity import AttentionContext, HeadActivity, head_activity
from regard.insight.heads.head_names import Head, by_kind
from regard.insight.heads.statistics import HeadStatistics, punctuation_of, statistics

LENGTH = 6
NOT = torch.zeros(10, dtype=torch.bool)


def attending_to(position: torch.Tensor, kind: str, lengths: tuple[int, ...]) -> HeadStatistics:
    """A head whose query i looks at place[i] alone."""
    weights = torch.nn.functional.one_hot(position.clamp(0), LENGTH).float()
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
    ("position", "kind", "label", "distance"),
    [
        (HERE - 1, "decoder", "previous token", 1),
        (HERE, "encoder", "same token", 0),
        (torch.zeros_like(HERE), "encoder", "first token", None),
        (torch.full_like(HERE, 2), "encoder", "punctuation", None),
        (torch.full_like(HERE, 5), "cross", "end of text", None),
    ],
)
def test_label_is_the_dominant_target(
    position: torch.Tensor, kind: str, label: str, distance: float | None
) -> None:
    head_statistics = attending_to(position, kind, (6, 6))
    assert head_statistics.label == label
    assert head_statistics.entropy == pytest.approx(0, abs=1e-6)
    if distance is not None:
        assert head_statistics.distance == pytest.approx(distance)


def test_only_queries_with_several_keys_count() -> None:
    head_statistics = attending_to(HERE - 1, "decoder", (6, 3))
    assert head_statistics.shares["previous"] == 1
    assert head_statistics.shares["same"] == 0
    assert "next" not in head_statistics.shares
    backward = attending_to(HERE + 1 - LENGTH * (HERE == LENGTH - 1), "encoder", (6, 6))
    assert backward.shares["next"] == 1
    assert backward.label == "next token"


def test_cross_attention_has_no_distance() -> None:
    head_statistics = attending_to(HERE, "cross", (6,))
    assert head_statistics.distance is None
    assert set(head_statistics.shares) == {"first", "last", "punctuation"}


def test_uniform_attention_has_full_entropy_and_no_label() -> None:
    token_mask = torch.ones(1, 8, dtype=torch.bool)
    ids = torch.full((1, 8), 5)
    even = torch.full((1, 1, 8, 8), 1 / 8)
    attention_context = AttentionContext(token_mask, token_mask, ids, "encoder")
    activity = HeadActivity([Head("m", "encoder", 0, 0)], even, even, attention_context)
    (head_statistics,) = statistics([activity], NOT)
    assert head_statistics.entropy == pytest.approx(3)
    assert head_statistics.label == ""
    assert head_statistics.shares["first"] == pytest.approx(1 / 8)


def test_punctuation_tokens_have_no_letter(tokenizer) -> None:
    is_punctuation = punctuation_of(tokenizer, len(tokenizer))
    named = {tokenizer.pieces([token])[0] for token in is_punctuation.nonzero().flatten().tolist()}
    assert "." in named
    assert not any(char.isalnum() for piece in named for char in piece)
    assert "</s>" not in named


@pytest.mark.parametrize("kind", ["encoder-decoder", "language-model", "classifier", "encoder"])
def test_statistics_of_every_kind_of_model(make, kind: str) -> None:
    home = make(kind)
    for name, heads in by_kind(home.loaded.model).items():
        activities = [
            activity[name] for activity in head_activity(home.loaded.model, home.examples)
        ]
        head_statistics = statistics(activities, torch.zeros(2000, dtype=torch.bool))
        assert [stats.head for stats in head_statistics] == heads
        assert all(stats.entropy > 0 for stats in head_statistics)
        assert all(
            0 <= share <= 1.0001 for stats in head_statistics for share in stats.shares.values()
        )
