"""Several end tokens as one: the best score for search, the sum of probabilities for sampling."""

import torch
from torch import Tensor

from regard.decoding.end_tokens import EndTokens

LOGITS = torch.tensor([[0.1, 2.0, 1.0, 0.5, -1.0]])


class Constant:
    """A model with the same logits after every token."""

    def start(self) -> None:
        return None

    def step(self, ids: Tensor, state: None) -> tuple[Tensor, None]:
        return LOGITS.expand(len(ids), -1), state

    def extend(self, ids: Tensor, state: None) -> tuple[Tensor, None]:
        return LOGITS.expand(*ids.shape, -1), state


def test_search_takes_the_best_end_token() -> None:
    logits, _ = EndTokens(Constant(), [3, 1]).step(torch.tensor([0, 0]), None)
    assert logits[0].tolist() == [LOGITS[0, 0], float("-inf"), 1.0, 2.0, -1.0]
    assert torch.equal(LOGITS, torch.tensor([[0.1, 2.0, 1.0, 0.5, -1.0]]))  # not changed


def test_sampling_takes_the_sum_of_probabilities() -> None:
    for temperature in (1.0, 0.5, 2.0):
        model = EndTokens(Constant(), [3, 1], temperature)
        logits, _ = model.extend(torch.zeros(1, 2, dtype=torch.long), None)
        merged = (logits[0, -1] / temperature).softmax(-1)
        expected = (LOGITS[0] / temperature).softmax(-1)
        torch.testing.assert_close(merged[3], expected[3] + expected[1])
        torch.testing.assert_close(merged[[0, 2, 4]], expected[[0, 2, 4]])
