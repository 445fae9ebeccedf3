"""A mixture of experts: many feed-forward networks, of which each word is given to a few.

    p = softmax(W_r x)                         the router: how well each of E experts suits a word
    y = Σ g_e · expert_e(x)  over the top k    g: their p divided by its sum (Shazeer et al. 2017);
                                               of a single one, p itself (Fedus et al. 2021)

The words of each expert are gathered and computed at once, so that a word costs k experts whatever
E is. In training only, all after Fedus et al. 2021:

    jitter     the router sees x ∗ u, u drawn from [1 − jitter, 1 + jitter]
    balance    balance · E · Σ_e f_e P_e is added to the loss: f_e is the share of all claims that
               are on expert e, P_e its mean p; where use is even the sum is 1 / E, else more
    capacity   an expert takes capacity · k · N / E of N words, the first to come; who comes later
               goes by the residual alone, and is counted. Otherwise, there is room for all.

Claims are heard by place, not row by row: what becomes of a word never depends on a later one.
"""

import math
from collections.abc import Callable, Sequence
from typing import Self

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from regard.config import kind_field
from regard.layers.aux_loss import Aside, say_aside
from regard.layers.dropout import random_bytes
from regard.layers.feedforward.base import FeedForwardSpec

LEVELS = 2**15  # either side of zero, of the 16 bits that a jitter is drawn from

# Words that stand together by expert (M, D), how many each expert here is given → their answers
Ask = Callable[[Tensor, list[int]], Tensor]
# The same of all experts, wherever they are, by way of who asks those that are here
Journey = Callable[[Tensor, Tensor, Ask], Tensor]


class Experts(nn.Module):
    def __init__(
        self,
        dim: int,
        experts: Sequence[nn.Module],
        top: int,
        capacity: float | None,
        balance: float,
        jitter: float,
    ) -> None:
        super().__init__()
        self.router = nn.Linear(dim, len(experts), bias=False)
        self.experts = nn.ModuleList(experts)
        self.top = top
        self.capacity, self.balance, self.jitter = capacity, balance, jitter
        self.here = range(len(experts))  # which of them are in this process
        self.journey: Journey | None = None  # takes words to the others, and brings answers back

    def forward(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """x (B, T, D) → (B, T, D); what is known not to be real (B, T) is given to no expert."""
        by_place = x.transpose(0, 1)
        if token_mask is None:
            said = self._ask(by_place.flatten(0, 1)).view(by_place.shape)
        else:
            answers = self._ask(by_place[token_mask.T])
            said = answers.new_zeros(by_place.shape).index_put((token_mask.T,), answers)
        return said.transpose(0, 1)

    def gates(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """How much of each word's answer is each expert's, where all have room: (B, T, E)."""
        suits = self._suits(x)
        gates, chosen = self._choose(suits)
        spread = torch.zeros_like(suits).scatter(-1, chosen, gates)
        return spread if token_mask is None else spread * token_mask.unsqueeze(-1)

    def _ask(self, words: Tensor) -> Tensor:
        """words (N, D) → (N, D)."""
        suits = self._suits(self._jittered(words))
        gates, chosen = self._choose(suits)
        claims = chosen.flatten()  # (N · k), those of a word side by side
        wanted = claims.bincount(minlength=len(self.experts))
        order = claims.argsort(stable=True)  # by expert; among equals, as they came
        given = wanted
        if self.training:
            order, given = self._admitted(order, wanted)
            say_aside(self._aside(suits, wanted, given))
        whose = order // self.top
        said = self._said(words[whose], given) * gates.flatten()[order, None]
        return said.new_zeros(words.shape).index_add(0, whose, said)

    def _suits(self, words: Tensor) -> Tensor:
        """The router's p (…, E), in the precision of its weights: rounding is not to choose."""
        with torch.autocast(words.device.type, enabled=False):
            fits: Tensor = self.router(words.to(self.router.weight.dtype))
            return fits.softmax(-1)

    def _choose(self, suits: Tensor) -> tuple[Tensor, Tensor]:
        """Of each word's experts the first k, best first, and their gates: both (…, k)."""
        gates, chosen = suits.topk(self.top)
        if self.top > 1:  # of one alone it would be 1, and the router would never learn
            gates = gates / gates.sum(-1, keepdim=True)
        return gates, chosen

    def _jittered(self, words: Tensor) -> Tensor:
        if not self.training or self.jitter == 0:
            return words
        drawn = random_bytes(2 * words.numel()).view(torch.int16).view(words.shape).to(words)
        return words * (1 + self.jitter / LEVELS * drawn)

    def _admitted(self, order: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Of the claims those that find room, and how many each expert is given."""
        if self.capacity is None:
            return order, wanted
        room = max(1, math.ceil(self.capacity * len(order) / len(self.experts)))
        first = wanted.cumsum(0) - wanted
        before = torch.arange(len(order), device=order.device) - first.repeat_interleave(wanted)
        return order[before < room], wanted.clamp_max(room)

    def _aside(self, suits: Tensor, wanted: Tensor, given: Tensor) -> Aside:
        claims = int(wanted.sum())
        shares = wanted / max(claims, 1)
        evenness = len(self.experts) * (shares * suits.sum(0) / max(len(suits), 1)).sum()
        overflowed = claims - int(given.sum())
        return Aside(self.balance * evenness, {"claims": claims, "overflowed": overflowed})

    def _said(self, words: Tensor, given: Tensor) -> Tensor:
        """What each expert says of its words, which stand together: (M, D) → (M, D)."""
        if self.journey is None:
            return self._by_expert(words, given.tolist())
        return self.journey(words, given, self._by_expert)

    def _by_expert(self, words: Tensor, given: list[int]) -> Tensor:
        """The same of the experts that are here."""
        experts = [self.experts[number] for number in self.here]
        groups = zip(experts, torch.split(words, given), strict=True)
        # Where gradients are wanted, one without words is asked as well: its gradient is zero then
        # and not missing, as processes that add theirs up expect.
        said = [expert(own) for expert, own in groups if len(own) or torch.is_grad_enabled()]
        return torch.cat(said) if said else words


class Spec(FeedForwardSpec):
    """feed_forward: {kind: moe, experts: 8, top: 2, of: gated}"""

    experts: int = Field(8, gt=0, le=4096, description="E, how many there are in each block")
    top: int = Field(2, gt=0, description="k, how many each word is given to")
    of: FeedForwardSpec = kind_field(FeedForwardSpec, "what each is: a kind in blocks/feedforward/")
    capacity: float | None = Field(
        None,
        gt=0,
        description="in training an expert takes so many times its even share; null: all",
    )
    balance: float = Field(0.01, ge=0, description="how much even use counts in the loss")
    jitter: float = Field(
        0.01, ge=0, lt=1, description="in training what the router sees is off by up to this share"
    )

    @field_validator("of")
    @classmethod
    def _is_plain(cls, of: FeedForwardSpec) -> FeedForwardSpec:
        if isinstance(of, Spec):
            raise ValueError("an expert cannot be a mixture of experts itself; try dense or gated")
        return of

    @model_validator(mode="after")
    def _there_are_as_many(self) -> Self:
        if self.top > self.experts:
            raise ValueError(
                f"a word cannot be given to the top {self.top} of {self.experts} experts; lower "
                f"'top' or raise 'experts'"
            )
        return self

    def build(self, dim: int, ffn_dim: int) -> nn.Module:
        if self.experts == 1:
            return self.of.build(dim, ffn_dim)  # nothing to choose: all words are the one's
        experts = [self.of.build(dim, ffn_dim) for _ in range(self.experts)]
        return Experts(dim, experts, self.top, self.capacity, self.balance, self.jitter)
