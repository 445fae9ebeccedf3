"""The compiled sparse kernel at practical sizes; tests of each kind cover small sizes."""

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


def build_attention(spec: dict[str, object], size: int = 64) -> Attention:
    return AttentionSpec.model_validate(spec).build(Sizes(2 * size, 2, size, LENGTH))


def random_qkv(size: int = 64, scale: float = 1.0) -> list[Tensor]:
    """Return queries, keys and values strided like the output of a projection."""
    generator = torch.Generator().manual_seed(size)
    shape = (2, LENGTH, 2, size)
    return [
        (scale * torch.randn(shape, generator=generator)).transpose(1, 2).requires_grad_()
        for _ in range(3)
    ]


def masks_for(kind: object) -> list[AttentionMask]:
    full = AttentionMask.bidirectional(LENGTH, CPU)
    token_mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [333]])
    return [full, AttentionMask.bidirectional(LENGTH, CPU, token_mask)] + (
        [AttentionMask.causal(0, LENGTH, CPU)] if kind == "window" else []
    )


def gradients(output: Tensor, qkv: list[Tensor]) -> tuple[Tensor, ...]:
    grad_output = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    return torch.autograd.grad(output, qkv, grad_output.to(output.dtype))


@pytest.mark.parametrize("size", [64, 40, 1])
@pytest.mark.parametrize("spec", KINDS)
def test_equals_dense_attention_with_the_same_mask(spec: dict[str, object], size: int) -> None:
    attention, qkv = build_attention(spec, size), random_qkv(size)
    for mask in masks_for(spec["kind"]):
        assert sparse_kernel.is_supported(qkv[0], mask, InAttention())
        outputs = attention(*qkv, mask, InAttention())
        dense = dot_product_attention(*qkv, attention.dense_mask(mask))[0]
        assert torch.allclose(outputs, dense, atol=1e-5)
        for one, other in zip(gradients(outputs, qkv), gradients(dense, qkv), strict=True):
            assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("spec", KINDS)
def test_large_scores_are_as_accurate_as_torch(
    spec: dict[str, object],
) -> None:
    attention, qkv, mask = (
        build_attention(spec),
        random_qkv(scale=8.0),
        AttentionMask.bidirectional(LENGTH, CPU),
    )
    exact = [x.detach().double().requires_grad_() for x in qkv]
    results = [
        (attention(*qkv, mask, InAttention()), qkv),
        (dot_product_attention(*qkv, attention.dense_mask(mask))[0], qkv),
        (dot_product_attention(*exact, attention.dense_mask(mask))[0], exact),
    ]
    kernel_results, dense_results, exact_results = (
        [output, *gradients(output, inputs)] for output, inputs in results
    )
    for one, other, reference in zip(kernel_results, dense_results, exact_results, strict=True):
        assert (one - reference).abs().max() <= 2 * (other - reference).abs().max()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("spec", KINDS)
def test_outputs_do_not_depend_on_the_number_of_threads(spec: dict[str, object]) -> None:
    attention, qkv, results = build_attention(spec), random_qkv(), []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        outputs = attention(*qkv, AttentionMask.bidirectional(LENGTH, CPU), InAttention())
        results.append([outputs, *gradients(outputs, qkv)])
    for others in results[1:]:
        assert all(torch.equal(*pair) for pair in zip(results[0], others, strict=True))


@pytest.mark.parametrize("spec", KINDS)
def test_nan_reaches_only_queries_that_attend_to_it(spec: dict[str, object]) -> None:
    attention, mask, qkv = (
        build_attention(spec),
        AttentionMask.bidirectional(LENGTH, CPU),
        random_qkv(),
    )
    with torch.no_grad():
        qkv[1][0, 0, 500] = float("nan")
    outputs = attention(*qkv, mask, InAttention())
    may_attend = attention.dense_mask(mask)
    assert may_attend is not None
    attends = may_attend.expand(2, 2, -1, -1)[0, 0, :, 500]
    is_nan = outputs.isnan().any(-1)
    assert torch.equal(is_nan[0, 0], attends)
    assert not is_nan[0, 1].any()
    assert not is_nan[1].any()


def test_nothing_is_saved_without_a_backward_pass() -> None:
    plan = [torch.tensor([[0, 8]]).int(), torch.tensor([[[[0, 8]]]]).int()]
    q, k, v = (torch.randn(1, 1, 8, 4) for _ in range(3))
    arguments = (q, k, v, plan, [1, sparse_kernel.UNLIMITED, sparse_kernel.UNLIMITED])
    assert sparse_kernel._sparse(*arguments, False)[1].numel() == 0
    outputs, log_sums = sparse_kernel._sparse(*arguments, True)
    assert torch.allclose(outputs, torch.nn.functional.scaled_dot_product_attention(q, k, v))
    assert torch.allclose(log_sums, (q @ k.mT / 2).logsumexp(-1))


def test_operator_passes_torch_opcheck() -> None:
    plan = [torch.tensor([[0, 8]]).int(), torch.tensor([[[[0, 8]]]]).int()]
    q, k, v = (torch.randn(1, 2, 8, 4, requires_grad=True) for _ in range(3))
    labels = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]]).int()
    arguments = (q, k, v, [*plan, labels, labels], [1, 3, 3], True)
    torch.library.opcheck(
        sparse_kernel._sparse, arguments, test_utils=("test_schema", "test_faketensor")
    )


def test_flops_are_counted() -> None:
    """Count the two matrix products of the forward and the five of the backward pass."""
    qkv = random_qkv()
    with FlopCounterMode(display=False) as forward:
        outputs = build_attention(KINDS[0])(
            *qkv, AttentionMask.causal(0, LENGTH, CPU), InAttention()
        )
    with FlopCounterMode(display=False) as backward:
        outputs.sum().backward()
    pairs = forward.get_total_flops() / (
        2 * 2 * 2 * 2 * 64
    )  # products, heads, rows, multiply and add
    assert LENGTH * 100 < pairs < LENGTH * (100 + 64)
    assert backward.get_total_flops() == forward.get_total_flops() * 5 / 2
