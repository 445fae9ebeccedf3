"""A mixture of experts is its equation, whatever the batch; who finds no room is counted."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import ConfigError, validate
from regard.layers.aux_loss import Aside, listening
from regard.layers.feedforward.base import FeedForwardSpec
from regard.layers.feedforward.dense import Dense
from regard.layers.feedforward.moe import Experts

D, INNER = 16, 24


def made(**given: Any) -> Experts:
    torch.manual_seed(0)
    spec = {"kind": "moe", "jitter": 0.0, **given}
    built = FeedForwardSpec.model_validate(spec).build(D, INNER)
    assert isinstance(built, Experts)
    return built


def words(*shape: int) -> Tensor:
    return torch.randn(*shape, D, generator=torch.Generator().manual_seed(1))


def written_out(mixture: Experts, x: Tensor) -> Tensor:
    """Word by word, expert by expert."""
    rows = []
    for word in x.flatten(0, 1):
        suits = torch.exp(mixture.router.weight @ word)
        suits = suits / suits.sum()
        best = sorted(range(len(suits)), key=lambda e: -suits[e].item())[: mixture.top]
        total = sum(suits[e] for e in best) if mixture.top > 1 else 1.0
        rows.append(sum(suits[e] / total * mixture.experts[e](word) for e in best))
    return torch.stack(rows).view(x.shape)


def gradients(answer: Tensor, mixture: nn.Module, x: Tensor) -> list[Tensor]:
    wanted = [x, *mixture.parameters()]
    weights = torch.linspace(-1, 1, answer.numel()).view(answer.shape)
    found = torch.autograd.grad((answer * weights).sum(), wanted, allow_unused=True)
    return [
        torch.zeros_like(each) if one is None else one
        for each, one in zip(wanted, found, strict=True)
    ]


@pytest.mark.parametrize("of", ["dense", "gated"])
@pytest.mark.parametrize(("experts", "top"), [(4, 1), (4, 2), (4, 4), (64, 3)])
@pytest.mark.parametrize("training", [True, False])
def test_it_is_its_equation(of: str, experts: int, top: int, training: bool) -> None:
    mixture = made(experts=experts, top=top, of=of).train(training)
    x = words(3, 5).requires_grad_()
    found, wanted = mixture(x), written_out(mixture, x)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    pairs = zip(gradients(found, mixture, x), gradients(wanted, mixture, x), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("top", [1, 2])
def test_gradients_reach_the_router_and_every_expert_that_is_used(top: int) -> None:
    mixture = made(experts=8, top=top)
    x = words(2, 6)
    mixture(x).square().sum().backward()
    assert mixture.router.weight.grad is not None
    assert mixture.router.weight.grad.any()
    used = mixture.gates(x).flatten(0, 1).any(0)
    for expert, is_used in zip(mixture.experts, used.tolist(), strict=True):
        for parameter in expert.parameters():
            assert parameter.grad is not None  # zero where nobody asked, for processes to add
            assert bool(parameter.grad.any()) == is_used


def test_gates_say_who_has_how_much_of_the_say() -> None:
    gates = made(experts=8, top=3).gates(words(2, 5))
    assert gates.shape == (2, 5, 8)
    assert torch.equal((gates > 0).sum(-1), torch.full((2, 5), 3))
    torch.testing.assert_close(gates.sum(-1), torch.ones(2, 5))


@pytest.mark.parametrize("capacity", [None, 0.5])
def test_neighbours_change_nothing_when_it_is_not_trained(capacity: float | None) -> None:
    mixture = made(experts=8, capacity=capacity).eval()
    x = words(6, 7)
    with torch.no_grad():
        together = mixture(x)
        alone = torch.cat(
            [mixture(row[:, None]) for row in x.split(1, 1) for row in [row[:, 0]]], 1
        )
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_what_is_not_real_costs_no_room_and_says_nothing() -> None:
    mixture = made(experts=4, top=1, capacity=1.0)
    x, token_mask = words(2, 6), torch.tensor([[True] * 6, [True] * 2 + [False] * 4])
    with listening() as asides:
        found = mixture(x, token_mask)
    assert not found[~token_mask].any()
    assert asides[0].counts["claims"] == 8
    changed = torch.where(token_mask[..., None], x, 9.0)
    torch.testing.assert_close(mixture(changed, token_mask), found)


def told(mixture: Experts, x: Tensor) -> tuple[Tensor, Aside]:
    with listening() as asides:
        answer = mixture(x)
    (aside,) = asides
    return answer, aside


def test_who_finds_no_room_goes_by_the_residual_and_is_counted() -> None:
    mixture = made(experts=4, top=1, capacity=1.0)
    nn.init.zeros_(mixture.router.weight)
    mixture.router.weight.data[2] = 1.0
    x = words(3, 4).abs()  # the third expert suits them all
    answer, aside = told(mixture, x)
    assert aside.counts == {"claims": 12, "overflowed": 9}
    # There is room for three, and those that stand first in their rows come first.
    assert answer[:, 0].any(-1).all()
    assert not answer[:, 1:].any()
    mixture.eval()
    assert mixture(x).any(-1).all()


def test_room_is_short_only_where_capacity_says_so() -> None:
    x = words(4, 16)
    assert told(made(experts=8), x)[1].counts == {"claims": 128, "overflowed": 0}
    assert told(made(experts=8, capacity=8.0), x)[1].counts["overflowed"] == 0
    given = made(experts=8, capacity=0.25)
    assert told(given, x)[1].counts["overflowed"] == 128 - 8 * 4


@pytest.mark.parametrize("top", [1, 2])
def test_no_word_depends_on_a_later_one_even_where_room_is_short(top: int) -> None:
    mixture = made(experts=4, top=top, capacity=0.5)
    x = words(3, 8)
    before = mixture(x)
    for place in range(1, 8):
        changed = x.clone()
        changed[:, place:] = words(9, 9)[:3, : 8 - place]
        torch.testing.assert_close(mixture(changed)[:, :place], before[:, :place])


def test_the_balance_is_its_equation_and_least_where_use_is_even() -> None:
    mixture = made(experts=4, top=2, balance=0.1)
    x = words(3, 5)
    suits = (x @ mixture.router.weight.T).softmax(-1).flatten(0, 1)
    shares = torch.zeros(4)
    for row in suits:
        shares[row.topk(2).indices] += 1 / 30
    torch.testing.assert_close(told(mixture, x)[1].loss, 0.1 * 4 * (shares * suits.mean(0)).sum())
    mixture.router.weight.data = torch.eye(4, D) * 50
    even = torch.zeros(1, 4, D)
    even[0, range(4), range(4)] = even[0, range(4), [1, 2, 3, 0]] = 1.0
    assert float(told(mixture, even)[1].loss.detach()) == pytest.approx(0.1, rel=1e-4)
    crowded = even[:, :1].expand(1, 4, D)
    assert float(told(mixture, crowded)[1].loss.detach()) == pytest.approx(0.2, rel=1e-4)


def test_the_balance_moves_words_away_from_a_crowd() -> None:
    mixture = made(experts=4, top=1, balance=1.0)
    nn.init.normal_(mixture.router.weight, std=0.01)
    mixture.router.weight.data[0] += 0.3
    x = words(4, 16).abs()
    optimizer = torch.optim.Adam([mixture.router.weight], lr=0.02)
    crowd = mixture.gates(x).bool().float().mean((0, 1)).max()
    for _ in range(60):
        optimizer.zero_grad()
        told(mixture, x)[1].loss.backward()
        optimizer.step()
    spread = mixture.gates(x).bool().float().mean((0, 1)).max()
    assert crowd == 1.0
    assert spread < 0.6


def test_jitter_is_small_only_in_training_and_follows_the_seed() -> None:
    mixture = made(experts=8, top=2, jitter=0.1)
    x = words(2, 9)
    calm = made(experts=8, top=2)(x)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        found: Tensor = mixture(x)
        return found

    assert torch.equal(drawn(3), drawn(3))
    assert not torch.equal(drawn(3), drawn(4))
    assert not torch.equal(drawn(3), calm)
    mixture.eval()
    torch.testing.assert_close(drawn(3), calm)
    shaken = mixture.train()._jittered(torch.ones(4000, D).double())
    assert 0.9 <= float(shaken.min()) < 0.901
    assert 1.099 < float(shaken.max()) <= 1.1
    assert float(shaken.mean()) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (0, 4), (2, 0)])
def test_fewer_words_than_experts(shape: tuple[int, int], training: bool) -> None:
    mixture = made(experts=64, top=2, capacity=1.25).train(training)
    answer, losses = mixture(words(*shape)), []
    assert answer.shape == (*shape, D)
    with torch.no_grad(), listening() as asides:
        torch.testing.assert_close(mixture(words(*shape)), answer)
    losses = [float(aside.loss) for aside in asides]
    assert all(loss >= 0 for loss in losses)  # nothing is not a number
    assert len(losses) == training


def test_of_one_expert_it_is_that_expert() -> None:
    built = FeedForwardSpec.model_validate({"kind": "moe", "experts": 1, "top": 1})
    assert isinstance(built.build(D, INNER), Dense)


def test_nobody_listening_nobody_told() -> None:
    mixture = made(experts=4)
    with listening() as outer:
        with listening() as inner:
            mixture(words(1, 4))
        assert (len(outer), len(inner)) == (0, 1)
        mixture.eval()(words(1, 4))  # says nothing when it is not trained
    mixture.train()(words(1, 4))
    assert not outer


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"experts": 2, "top": 3}, "the top 3 of 2 experts"),
        ({"experts": 1}, "the top 2 of 1 experts"),
        ({"experts": 0}, "experts: "),
        ({"top": 0}, "top: "),
        ({"capacity": 0}, "capacity: "),
        ({"jitter": 1.0}, "jitter: "),
        ({"balance": -1}, "balance: "),
        ({"of": "moe"}, "of: an expert cannot be a mixture of experts itself"),
        ({"of": "dens"}, "did you mean 'dense'"),
        ({"expert": 4}, "did you mean 'experts'"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        validate(FeedForwardSpec, {"kind": "moe", **given}, "recipe.yaml")
