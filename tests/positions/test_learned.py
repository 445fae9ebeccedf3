"""Learned positions: the maximum length."""

import pytest
import torch

from regard.errors import DataError
from regard.positions.learned import Learned


def test_text_beyond_the_learned_positions_is_refused() -> None:
    learned = Learned(dim=4, length=8)
    assert learned(torch.zeros(1, 3, 4), 5).shape == (1, 3, 4)
    with pytest.raises(DataError, match=r"learned 8 positions and the text has 9 tokens"):
        learned(torch.zeros(1, 3, 4), 6)
