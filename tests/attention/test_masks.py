"""Masks: True = may look."""

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


def test_the_future_is_hidden() -> None:
    assert dense(Causal()) == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_masks_join() -> None:
    assert dense(Causal() & Window(1)) == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert dense(Causal() | Full()) == [[1] * 4] * 4


def test_masks_are_values() -> None:
    assert Causal() & Window(2) == Causal() & Window(2)
    assert Window(1) != Window(2)


def test_padding_and_structure_meet_in_a_view() -> None:
    token_mask = torch.tensor([[True, True, False], [True, True, True]])
    positions = torch.arange(3)
    visible = AttentionMask(Causal(), positions, positions, token_mask).dense
    assert visible is not None
    assert visible[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert visible[1, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_documents_and_structure_meet_in_a_view() -> None:
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


def test_places_begin_anew_in_each_document() -> None:
    documents = torch.tensor([[5, 5, 6, 6, 6, 7], [0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
    expected = [[0, 1, 0, 1, 2, 0], [0, 1, 2, 3, 4, 5], [0] * 6]
    assert positions_in_documents(documents).tolist() == expected


def test_nothing_to_hide_needs_no_mask() -> None:
    device = torch.device("cpu")
    assert AttentionMask.bidirectional(5, device).dense is None
    assert AttentionMask.causal(0, 5, device).is_plain_causal
    assert not AttentionMask.causal(3, 5, device).is_plain_causal
    assert AttentionMask.causal(3, 2, device).dense.int().tolist() == [
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
    ]
