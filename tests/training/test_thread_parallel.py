"""Threaded backward: the gradient of the whole batch, and the same bits every time."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

from regard.data.batches.pairs import Example, PairBatch, collate
from regard.layers.dropout import Dropout
from regard.training import thread_parallel as module
from regard.training.thread_parallel import ThreadedBackward


class Scorer(nn.Module):
    """Scores tokens independently, so that rows can be split anyhow; `idle` gets no gradient."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 16)
        self.inner = nn.Linear(16, 16)
        self.idle = nn.Linear(16, 16)
        self.dropout = Dropout(dropout)

    def forward(self, batch: PairBatch) -> Tensor:
        hidden = self.dropout(torch.tanh(self.inner(self.table(batch.source))))
        return (hidden.sum(-1) * batch.source_mask).sum()


def make_backward(dropout: float) -> tuple[Scorer, ThreadedBackward]:
    torch.manual_seed(0)
    scorer = Scorer(dropout).double()
    return scorer, ThreadedBackward(scorer, list(scorer.parameters()))


def batch() -> PairBatch:
    rows = [Example([3 + (i * j) % 27 for j in range(1 + i % 7)], [1, 2]) for i in range(1, 40)]
    return collate(rows, pad_id=0)


def gradients(scorer: Scorer) -> list[Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in scorer.parameters()]


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_thread_gradients_sum_to_those_of_the_batch(workers: int) -> None:
    scorer, threaded = make_backward(dropout=0.0)
    batch_loss = scorer(batch())
    (batch_loss / 7).backward()
    expected_gradients = gradients(scorer)
    scorer.zero_grad()
    loss = threaded.backward(batch(), workers, 1 / 7)
    assert loss == pytest.approx(float(batch_loss.detach()))
    for gradient, expected in zip(gradients(scorer), expected_gradients, strict=True):
        assert (gradient is None) == (expected is None)
        if gradient is not None and expected is not None:
            torch.testing.assert_close(gradient, expected)


@pytest.mark.usefixtures("four_threads")
def test_gradients_of_a_second_batch_accumulate() -> None:
    scorer, threaded = make_backward(dropout=0.0)
    threaded.backward(batch(), 4, 1.0)
    once = [None if g is None else g.clone() for g in gradients(scorer)]
    threaded.backward(batch(), 4, 1.0)
    for gradient, expected in zip(gradients(scorer), once, strict=True):
        if gradient is not None and expected is not None:
            torch.testing.assert_close(gradient, 2 * expected)


@pytest.mark.usefixtures("four_threads")
def test_dropout_depends_on_the_seed_and_not_on_thread_timing() -> None:
    scorer, threaded = make_backward(dropout=0.3)
    gradient_vectors = []
    for seed in (5, 5, 5, 6):
        torch.manual_seed(seed)
        scorer.zero_grad()
        threaded.backward(batch(), 4, 1.0)
        gradient_vectors.append(
            torch.cat([g.flatten() for g in gradients(scorer) if g is not None])
        )
    assert torch.equal(gradient_vectors[0], gradient_vectors[1])
    assert torch.equal(gradient_vectors[0], gradient_vectors[2])
    assert not torch.equal(gradient_vectors[0], gradient_vectors[3])


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize(("workers", "threads"), [(4, 1), (2, 2)])
def test_workers_share_the_threads_and_restore_their_number(workers: int, threads: int) -> None:
    scorer, inside = make_backward(dropout=0.0)[0], []

    def loss(share: PairBatch) -> Tensor:
        inside.append(torch.get_num_threads())
        return scorer(share)

    threaded = ThreadedBackward(loss, [scorer.inner.weight])
    for _ in range(3):
        threaded.backward(batch(), workers, 1.0)
    assert inside == [threads] * 3 * workers
    assert torch.get_num_threads() == 4
    assert ThreadPoolExecutor(1).submit(torch.get_num_threads).result() == 4


@pytest.mark.usefixtures("four_threads")
def test_small_batches_are_not_split() -> None:
    threaded = make_backward(dropout=0.0)[1]
    enough = module.TOKENS_PER_WORKER
    assert [threaded.num_workers(n * enough) for n in (0, 1, 2, 3, 4, 9)] == [1, 1, 2, 2, 4, 4]


@pytest.mark.usefixtures("four_threads")
def test_an_error_in_a_worker_is_raised() -> None:
    def fail(_: object) -> Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ThreadedBackward(fail, []).backward(batch(), 2, 1.0)
