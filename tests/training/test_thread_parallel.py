"""A batch in lanes gives the gradient of the batch, and the same bits every time."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

from regard.data.batches.pairs import Example, PairBatch, collate
from regard.layers.dropout import Dropout
from regard.training import thread_parallel as module
from regard.training.thread_parallel import ThreadedBackward


class Scorer(nn.Module):
    """Words scored one by one, so that rows can go anywhere; `idle` takes no part."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 16)
        self.inner = nn.Linear(16, 16)
        self.idle = nn.Linear(16, 16)
        self.dropout = Dropout(dropout)

    def forward(self, batch: PairBatch) -> Tensor:
        hidden = self.dropout(torch.tanh(self.inner(self.table(batch.source))))
        return (hidden.sum(-1) * batch.source_mask).sum()


def made(dropout: float) -> tuple[Scorer, ThreadedBackward]:
    torch.manual_seed(0)
    scorer = Scorer(dropout).double()
    return scorer, ThreadedBackward(scorer, list(scorer.parameters()))


def batch() -> PairBatch:
    rows = [Example([3 + (i * j) % 27 for j in range(1 + i % 7)], [1, 2]) for i in range(1, 40)]
    return collate(rows, pad_id=0)


def gradients(scorer: Scorer) -> list[Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in scorer.parameters()]


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("lanes", [2, 3, 4])
def test_lanes_add_up_to_the_whole(lanes: int) -> None:
    scorer, split = made(dropout=0.0)
    whole = scorer(batch())
    (whole / 7).backward()
    wanted = gradients(scorer)
    scorer.zero_grad()
    loss = split.backward(batch(), lanes, 1 / 7)
    assert loss == pytest.approx(float(whole.detach()))
    for found, expected in zip(gradients(scorer), wanted, strict=True):
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            torch.testing.assert_close(found, expected)


@pytest.mark.usefixtures("four_threads")
def test_a_second_batch_is_added() -> None:
    scorer, split = made(dropout=0.0)
    split.backward(batch(), 4, 1.0)
    once = [None if g is None else g.clone() for g in gradients(scorer)]
    split.backward(batch(), 4, 1.0)
    for found, expected in zip(gradients(scorer), once, strict=True):
        if found is not None and expected is not None:
            torch.testing.assert_close(found, 2 * expected)


@pytest.mark.usefixtures("four_threads")
def test_chance_follows_from_the_seed_however_the_threads_race() -> None:
    scorer, split = made(dropout=0.3)
    seen = []
    for seed in (5, 5, 5, 6):
        torch.manual_seed(seed)
        scorer.zero_grad()
        split.backward(batch(), 4, 1.0)
        seen.append(torch.cat([g.flatten() for g in gradients(scorer) if g is not None]))
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[0], seen[3])


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize(("lanes", "threads"), [(4, 1), (2, 2)])
def test_lanes_share_the_threads_and_everybody_else_has_as_many_as_before(
    lanes: int, threads: int
) -> None:
    scorer, inside = made(dropout=0.0)[0], []

    def loss(share: PairBatch) -> Tensor:
        inside.append(torch.get_num_threads())
        return scorer(share)

    split = ThreadedBackward(loss, [scorer.inner.weight])
    for _ in range(3):
        split.backward(batch(), lanes, 1.0)
    assert inside == [threads] * 3 * lanes
    assert torch.get_num_threads() == 4
    assert ThreadPoolExecutor(1).submit(torch.get_num_threads).result() == 4


@pytest.mark.usefixtures("four_threads")
def test_small_batches_are_not_split() -> None:
    split = made(dropout=0.0)[1]
    enough = module.TOKENS_PER_WORKER
    assert [split.num_workers(n * enough) for n in (0, 1, 2, 3, 4, 9)] == [1, 1, 2, 2, 4, 4]


@pytest.mark.usefixtures("four_threads")
def test_what_fails_in_a_lane_is_raised() -> None:
    def fail(_: object) -> Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ThreadedBackward(fail, []).backward(batch(), 2, 1.0)
