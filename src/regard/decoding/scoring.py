"""How likely a model finds what is given: log p of each word, after all before it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batches.base import pad
from regard.decoding.stepper import Prefills, R


@dataclass(frozen=True)
class Score:
    words: tuple[float, ...]  # log p of each word, the end included

    @property
    def total(self) -> float:
        return sum(self.words)

    @property
    def mean(self) -> float:
        """By word: comparable between sentences of different lengths."""
        return self.total / len(self.words)

    @property
    def perplexity(self) -> float:
        return float(torch.tensor(-self.mean, dtype=torch.float64).exp())


@torch.inference_mode()
def score(
    model: Prefills[R], state: R, first: Tensor, end: int, said: Sequence[Sequence[int]]
) -> list[Score]:
    """Of what each row says after its first id (B,), and of its ending there."""
    wanted = [[*ids, end] for ids in said]
    words, token_mask = pad(wanted, end)
    words, token_mask = words.to(first.device), token_mask.to(first.device)
    given = torch.cat([first[:, None], words[:, :-1]], dim=1)
    logits, _ = model.extend(given, state)
    log_p = logits.float().log_softmax(-1).gather(2, words[:, :, None])[:, :, 0].double()
    return [Score(tuple(row[mask].tolist())) for row, mask in zip(log_p, token_mask, strict=True)]
