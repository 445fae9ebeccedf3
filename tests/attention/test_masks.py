"""Attention masks (True: may attend): patterns, padding and documents."""

import torch

from regard.attention.masks import (
    AttentionMask,
    Causal,
    Full,
    MaskPattern,
    Window,
    positions_in_documents,
)


def dense(pattern: MaskPattern, size: int = 4) -> list[list[int]]:
    positions = torch.arange(size)
    return pattern.allows(positions[:, None], positions[None, :]).int().tolist()


def test_causal_mask_hides_later_tokens() -> None:
    assert dense(Causal()) == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_patterns_combine_with_and_and_or() -> None:
    assert dense(Causal() & Window(1)) == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert dense(Causal() | Full()) == [[1] * 4] * 4


def test_patterns_are_compared_by_value() -> None:
    assert Causal() & Window(2) == Causal() & Window(2)
    assert Window(1) != Window(2)


def test_mask_combines_pattern_and_padding() -> None:
    token_mask = torch.tensor([[True, True, False], [True, True, True]])
    positions = torch.arange(3)
    may_attend = AttentionMask(Causal(), positions, positions, token_mask).dense
    assert may_attend is not None
    assert may_attend[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert may_attend[1, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_mask_combines_pattern_and_documents() -> None:
    documents = torch.tensor([[0, 1, 1, 2], [4, 4, 4, 4]])
    mask = AttentionMask.causal(0, 4, torch.device("cpu"), documents)
    assert not mask.is_plain_causal
    assert mask.dense is not None
    assert mask.dense[0, 0].int().tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 0, 1],
    ]
    assert mask.dense[1, 0].int().tolist() == dense(Causal())


def test_positions_restart_in_each_document() -> None:
    documents = torch.tensor([[5, 5, 6, 6, 6, 7], [0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
    expected = [[0, 1, 0, 1, 2, 0], [0, 1, 2, 3, 4, 5], [0] * 6]
    assert positions_in_documents(documents).tolist() == expected


def test_full_mask_is_not_materialized() -> None:
    device = torch.device("cpu")
    assert AttentionMask.bidirectional(5, device).dense is None
    assert AttentionMask.causal(0, 5, device).is_plain_causal
    assert not AttentionMask.causal(3, 5, device).is_plain_causal
    assert AttentionMask.causal(3, 2, device).dense.int().tolist() == [
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
    ]
