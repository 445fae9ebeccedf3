"""The compiled kernel at the sizes it is made for; small ones are tried where it is used."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import sparse_kernel
from regard.attention.base import Attention, AttentionSpec
from regard.attention.masks import AttentionMask
from regard.attention.reference import dot_product_attention
from regard.native.library import library
from regard.positions.base import InAttention, Sizes

pytestmark = pytest.mark.skipif(library() is None, reason="there was no C++ compiler")

CPU = torch.device("cpu")
LENGTH = 700
KINDS = [
    {"kind": "window", "size": 100},
    {"kind": "window", "size": 200, "dilation": 3},
    {"kind": "bigbird", "block": 80, "global": 1, "random": 1},
]


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def built(spec: dict[str, object], size: int = 64) -> Attention:
    return AttentionSpec.model_validate(spec).build(Sizes(2 * size, 2, size, LENGTH))


def drawn(size: int = 64, scale: float = 1.0) -> list[Tensor]:
    """Queries, keys and values as they come out of a projection: heads side by side."""
    chance = torch.Generator().manual_seed(size)
    shape = (2, LENGTH, 2, size)
    return [
        (scale * torch.randn(shape, generator=chance)).transpose(1, 2).requires_grad_()
        for _ in range(3)
    ]


def views(kind: object) -> list[AttentionMask]:
    around = AttentionMask.bidirectional(LENGTH, CPU)
    token_mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [333]])
    return [around, AttentionMask.bidirectional(LENGTH, CPU, token_mask)] + (
        [AttentionMask.causal(0, LENGTH, CPU)] if kind == "window" else []
    )


def back(found: Tensor, given: list[Tensor]) -> tuple[Tensor, ...]:
    toward = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    return torch.autograd.grad(found, given, toward.to(found.dtype))


@pytest.mark.parametrize("size", [64, 40, 1])
@pytest.mark.parametrize("spec", KINDS)
def test_equals_the_mask_applied_densely(spec: dict[str, object], size: int) -> None:
    attention, given = built(spec, size), drawn(size)
    for mask in views(spec["kind"]):
        assert sparse_kernel.is_supported(given[0], mask, InAttention())
        ours = attention(*given, mask, InAttention())
        dense = dot_product_attention(*given, attention.dense_mask(mask))[0]
        assert torch.allclose(ours, dense, atol=1e-5)
        for one, other in zip(back(ours, given), back(dense, given), strict=True):
            assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("spec", KINDS)
def test_scores_of_hundreds_are_as_near_the_truth_as_those_of_torch(
    spec: dict[str, object],
) -> None:
    attention, given, mask = built(spec), drawn(scale=8.0), AttentionMask.bidirectional(LENGTH, CPU)
    exact = [x.detach().double().requires_grad_() for x in given]
    answers = [
        (attention(*given, mask, InAttention()), given),
        (dot_product_attention(*given, attention.dense_mask(mask))[0], given),
        (dot_product_attention(*exact, attention.dense_mask(mask))[0], exact),
    ]
    ours, theirs, truth = ([found, *back(found, of)] for found, of in answers)
    for one, other, true in zip(ours, theirs, truth, strict=True):
        assert (one - true).abs().max() <= 2 * (other - true).abs().max()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("spec", KINDS)
def test_however_many_work_at_it_the_bits_are_the_same(spec: dict[str, object]) -> None:
    attention, given, found = built(spec), drawn(), []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        ours = attention(*given, AttentionMask.bidirectional(LENGTH, CPU), InAttention())
        found.append([ours, *back(ours, given)])
    for others in found[1:]:
        assert all(torch.equal(*pair) for pair in zip(found[0], others, strict=True))


@pytest.mark.parametrize("spec", KINDS)
def test_what_is_no_number_stays_where_it_is_seen(spec: dict[str, object]) -> None:
    attention, mask, given = built(spec), AttentionMask.bidirectional(LENGTH, CPU), drawn()
    with torch.no_grad():
        given[1][0, 0, 500] = float("nan")
    ours = attention(*given, mask, InAttention())
    visible = attention.dense_mask(mask)
    assert visible is not None
    seeing = visible.expand(2, 2, -1, -1)[0, 0, :, 500]
    lost = ours.isnan().any(-1)
    assert torch.equal(lost[0, 0], seeing)
    assert not lost[0, 1].any()
    assert not lost[1].any()


def test_where_nobody_goes_back_nothing_is_kept() -> None:
    plan = [torch.tensor([[0, 8]]).int(), torch.tensor([[[[0, 8]]]]).int()]
    q, k, v = (torch.randn(1, 1, 8, 4) for _ in range(3))
    given = (q, k, v, plan, [1, sparse_kernel.FAR, sparse_kernel.FAR])
    assert sparse_kernel._sparse(*given, False)[1].numel() == 0
    found, total = sparse_kernel._sparse(*given, True)
    assert torch.allclose(found, torch.nn.functional.scaled_dot_product_attention(q, k, v))
    assert torch.allclose(total, (q @ k.mT / 2).logsumexp(-1))


def test_torch_finds_nothing_wrong_with_the_operator() -> None:
    plan = [torch.tensor([[0, 8]]).int(), torch.tensor([[[[0, 8]]]]).int()]
    q, k, v = (torch.randn(1, 2, 8, 4, requires_grad=True) for _ in range(3))
    labels = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]]).int()
    given = (q, k, v, [*plan, labels, labels], [1, 3, 3], True)
    torch.library.opcheck(
        sparse_kernel._sparse, given, test_utils=("test_schema", "test_faketensor")
    )


def test_its_work_is_counted() -> None:
    """As that of the products it stands for: two forward, five back."""
    given = drawn()
    with FlopCounterMode(display=False) as forward:
        found = built(KINDS[0])(*given, AttentionMask.causal(0, LENGTH, CPU), InAttention())
    with FlopCounterMode(display=False) as backward:
        found.sum().backward()
    pairs = forward.get_total_flops() / (2 * 2 * 2 * 2 * 64)  # products, heads, rows, a sum's steps
    assert LENGTH * 100 < pairs < LENGTH * (100 + 64)
    assert backward.get_total_flops() == forward.get_total_flops() * 5 / 2
