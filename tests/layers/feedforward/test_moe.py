"""Mixture of experts: its equation, routing, capacity, balance loss, jitter and error messages."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import ConfigError, validate
from regard.layers.aux_loss import AuxLoss, collect_aux_losses
from regard.layers.feedforward.base import FeedForwardSpec
from regard.layers.feedforward.dense import Dense
from regard.layers.feedforward.moe import MixtureOfExperts

D, FFN_DIM = 16, 24


def build(**settings: Any) -> MixtureOfExperts:
    torch.manual_seed(0)
    spec = {"kind": "moe", "jitter": 0.0, **settings}
    mixture = FeedForwardSpec.model_validate(spec).build(D, FFN_DIM)
    assert isinstance(mixture, MixtureOfExperts)
    return mixture


def tokens(*shape: int) -> Tensor:
    return torch.randn(*shape, D, generator=torch.Generator().manual_seed(1))


def naive(mixture: MixtureOfExperts, x: Tensor) -> Tensor:
    """Compute the equation token by token and expert by expert."""
    rows = []
    for token in x.flatten(0, 1):
        probs = torch.exp(mixture.router.weight @ token)
        probs = probs / probs.sum()
        best = sorted(range(len(probs)), key=lambda e: -probs[e].item())[: mixture.top_k]
        total = sum(probs[e] for e in best) if mixture.top_k > 1 else 1.0
        rows.append(sum(probs[e] / total * mixture.experts[e](token) for e in best))
    return torch.stack(rows).view(x.shape)


def gradients_of(output: Tensor, mixture: nn.Module, x: Tensor) -> list[Tensor]:
    inputs = [x, *mixture.parameters()]
    weights = torch.linspace(-1, 1, output.numel()).view(output.shape)
    gradients = torch.autograd.grad((output * weights).sum(), inputs, allow_unused=True)
    return [
        torch.zeros_like(tensor) if gradient is None else gradient
        for tensor, gradient in zip(inputs, gradients, strict=True)
    ]


@pytest.mark.parametrize("expert", ["dense", "gated"])
@pytest.mark.parametrize(("num_experts", "top_k"), [(4, 1), (4, 2), (4, 4), (64, 3)])
@pytest.mark.parametrize("training", [True, False])
def test_output_and_gradients_match_equation(
    expert: str, num_experts: int, top_k: int, training: bool
) -> None:
    mixture = build(num_experts=num_experts, top_k=top_k, expert=expert).train(training)
    x = tokens(3, 5).requires_grad_()
    output, expected = mixture(x), naive(mixture, x)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    pairs = zip(gradients_of(output, mixture, x), gradients_of(expected, mixture, x), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("top_k", [1, 2])
def test_router_and_used_experts_get_gradients(top_k: int) -> None:
    mixture = build(num_experts=8, top_k=top_k)
    x = tokens(2, 6)
    mixture(x).square().sum().backward()
    assert mixture.router.weight.grad is not None
    assert mixture.router.weight.grad.any()
    used = mixture.gates(x).flatten(0, 1).any(0)
    for expert, is_used in zip(mixture.experts, used.tolist(), strict=True):
        for parameter in expert.parameters():
            assert parameter.grad is not None  # zero without tokens, so that processes can sum it
            assert bool(parameter.grad.any()) == is_used


def test_gates_sum_to_one_over_top_k_experts() -> None:
    gates = build(num_experts=8, top_k=3).gates(tokens(2, 5))
    assert gates.shape == (2, 5, 8)
    assert torch.equal((gates > 0).sum(-1), torch.full((2, 5), 3))
    torch.testing.assert_close(gates.sum(-1), torch.ones(2, 5))


@pytest.mark.parametrize("capacity_factor", [None, 0.5])
def test_other_rows_do_not_change_outputs_in_eval(capacity_factor: float | None) -> None:
    mixture = build(num_experts=8, capacity_factor=capacity_factor).eval()
    x = tokens(6, 7)
    with torch.no_grad():
        together = mixture(x)
        alone = torch.cat(
            [mixture(row[:, None]) for row in x.split(1, 1) for row in [row[:, 0]]], 1
        )
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_padding_uses_no_capacity_and_outputs_zeros() -> None:
    mixture = build(num_experts=4, top_k=1, capacity_factor=1.0)
    x, token_mask = tokens(2, 6), torch.tensor([[True] * 6, [True] * 2 + [False] * 4])
    with collect_aux_losses() as aux_losses:
        output = mixture(x, token_mask)
    assert not output[~token_mask].any()
    assert aux_losses[0].counts["assignments"] == 8
    changed = torch.where(token_mask[..., None], x, 9.0)
    torch.testing.assert_close(mixture(changed, token_mask), output)


def run(mixture: MixtureOfExperts, x: Tensor) -> tuple[Tensor, AuxLoss]:
    with collect_aux_losses() as aux_losses:
        output = mixture(x)
    (aux_loss,) = aux_losses
    return output, aux_loss


def test_dropped_tokens_output_zeros_and_are_counted() -> None:
    mixture = build(num_experts=4, top_k=1, capacity_factor=1.0)
    nn.init.zeros_(mixture.router.weight)
    mixture.router.weight.data[2] = 1.0
    x = tokens(3, 4).abs()  # the third expert probs them all
    output, aux_loss = run(mixture, x)
    assert aux_loss.counts == {"assignments": 12, "dropped": 9}
    # The capacity is three tokens: the first ones of the rows.
    assert output[:, 0].any(-1).all()
    assert not output[:, 1:].any()
    mixture.eval()
    assert mixture(x).any(-1).all()


def test_tokens_are_dropped_only_beyond_capacity() -> None:
    x = tokens(4, 16)
    assert run(build(num_experts=8), x)[1].counts == {
        "assignments": 128,
        "dropped": 0,
    }
    assert run(build(num_experts=8, capacity_factor=8.0), x)[1].counts["dropped"] == 0
    crowded = build(num_experts=8, capacity_factor=0.25)
    assert run(crowded, x)[1].counts["dropped"] == 128 - 8 * 4


@pytest.mark.parametrize("top_k", [1, 2])
def test_outputs_do_not_depend_on_later_tokens_when_tokens_are_dropped(top_k: int) -> None:
    mixture = build(num_experts=4, top_k=top_k, capacity_factor=0.5)
    x = tokens(3, 8)
    before = mixture(x)
    for position in range(1, 8):
        changed = x.clone()
        changed[:, position:] = tokens(9, 9)[:3, : 8 - position]
        torch.testing.assert_close(mixture(changed)[:, :position], before[:, :position])


def test_balance_loss_matches_equation_and_is_least_for_even_load() -> None:
    mixture = build(num_experts=4, top_k=2, balance_loss=0.1)
    x = tokens(3, 5)
    probs = (x @ mixture.router.weight.T).softmax(-1).flatten(0, 1)
    fractions = torch.zeros(4)
    for row in probs:
        fractions[row.topk(2).indices] += 1 / 30
    torch.testing.assert_close(run(mixture, x)[1].loss, 0.1 * 4 * (fractions * probs.mean(0)).sum())
    mixture.router.weight.data = torch.eye(4, D) * 50
    even = torch.zeros(1, 4, D)
    even[0, range(4), range(4)] = even[0, range(4), [1, 2, 3, 0]] = 1.0
    assert float(run(mixture, even)[1].loss.detach()) == pytest.approx(0.1, rel=1e-4)
    crowded = even[:, :1].expand(1, 4, D)
    assert float(run(mixture, crowded)[1].loss.detach()) == pytest.approx(0.2, rel=1e-4)


def test_balance_loss_spreads_tokens_over_experts() -> None:
    mixture = build(num_experts=4, top_k=1, balance_loss=1.0)
    nn.init.normal_(mixture.router.weight, std=0.01)
    mixture.router.weight.data[0] += 0.3
    x = tokens(4, 16).abs()
    optimizer = torch.optim.Adam([mixture.router.weight], lr=0.02)
    crowd = mixture.gates(x).bool().float().mean((0, 1)).max()
    for _ in range(60):
        optimizer.zero_grad()
        run(mixture, x)[1].loss.backward()
        optimizer.step()
    spread = mixture.gates(x).bool().float().mean((0, 1)).max()
    assert crowd == 1.0
    assert spread < 0.6


def test_jitter_is_bounded_used_only_in_training_and_seeded() -> None:
    mixture = build(num_experts=8, top_k=2, jitter=0.1)
    x = tokens(2, 9)
    exact = build(num_experts=8, top_k=2)(x)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        output: Tensor = mixture(x)
        return output

    assert torch.equal(drawn(3), drawn(3))
    assert not torch.equal(drawn(3), drawn(4))
    assert not torch.equal(drawn(3), exact)
    mixture.eval()
    torch.testing.assert_close(drawn(3), exact)
    jittered = mixture.train()._jittered(torch.ones(4000, D).double())
    assert 0.9 <= float(jittered.min()) < 0.901
    assert 1.099 < float(jittered.max()) <= 1.1
    assert float(jittered.mean()) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (0, 4), (2, 0)])
def test_fewer_tokens_than_experts(shape: tuple[int, int], training: bool) -> None:
    mixture = build(num_experts=64, top_k=2, capacity_factor=1.25).train(training)
    output, losses = mixture(tokens(*shape)), []
    assert output.shape == (*shape, D)
    with torch.no_grad(), collect_aux_losses() as aux_losses:
        torch.testing.assert_close(mixture(tokens(*shape)), output)
    losses = [float(aux_loss.loss) for aux_loss in aux_losses]
    assert all(loss >= 0 for loss in losses)  # no NaN
    assert len(losses) == training


def test_one_expert_builds_that_expert() -> None:
    spec = FeedForwardSpec.model_validate({"kind": "moe", "num_experts": 1, "top_k": 1})
    assert isinstance(spec.build(D, FFN_DIM), Dense)


def test_aux_losses_reach_only_the_innermost_collector() -> None:
    mixture = build(num_experts=4)
    with collect_aux_losses() as outer:
        with collect_aux_losses() as inner:
            mixture(tokens(1, 4))
        assert (len(outer), len(inner)) == (0, 1)
        mixture.eval()(tokens(1, 4))  # no auxiliary loss in eval
    mixture.train()(tokens(1, 4))
    assert not outer


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_experts": 2, "top_k": 3}, "the top 3 of 2 experts"),
        ({"num_experts": 1}, "the top 2 of 1 experts"),
        ({"num_experts": 0}, "num_experts: "),
        ({"top_k": 0}, "top_k: "),
        ({"capacity_factor": 0}, "capacity_factor: "),
        ({"jitter": 1.0}, "jitter: "),
        ({"balance_loss": -1}, "balance_loss: "),
        ({"expert": "moe"}, "expert: an expert cannot be a mixture of experts itself"),
        ({"expert": "dens"}, "did you mean 'dense'"),
        ({"num_expert": 4}, "did you mean 'num_experts'"),
        ({"top": 2}, "the key 'top' was renamed to 'top_k'"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(FeedForwardSpec, {"kind": "moe", **settings}, "recipe.yaml")
