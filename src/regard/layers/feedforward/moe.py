"""Mixture of experts: many feed-forward networks, of which each token uses a few.

    p = softmax(W_r x)                         router: probability of each of E experts for a token
    y = Σ g_e · expert_e(x)  over the top k    g: p divided by its sum over the top k (Shazeer et
                                               al. 2017); for k = 1, p itself (Fedus et al. 2021)

The tokens of each expert are gathered and computed at once, so the cost of a token is that of k
experts for any E. In training only, all after Fedus et al. 2021:

    jitter            the router reads x ∗ u, u drawn from [1 − jitter, 1 + jitter]
    balance_loss      balance_loss · E · Σ_e f_e P_e is added to the loss: f_e is the fraction of
                      all assignments that go to expert e, P_e its mean p; the sum is 1 / E for an
                      even load, otherwise larger
    capacity_factor   an expert takes capacity_factor · k · N / E of N tokens, in order; later
                      assignments are dropped, counted, and pass by the residual alone. Without
                      a capacity factor nothing is dropped.

Tokens are assigned in position order, not row by row: an assignment never depends on a later token.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from regard.config import kind_field
from regard.layers.aux_loss import AuxLoss, add_aux_loss
from regard.layers.dropout import random_bytes
from regard.layers.feedforward.base import FeedForwardSpec

LEVELS = 2**15  # either side of zero, of the 16 bits that a jitter is drawn from

# Tokens grouped by expert (M, D) and the number of tokens of each local expert → outputs (M, D)
RunExperts = Callable[[Tensor, list[int]], Tensor]
# The same for all experts, of other processes too, given the function that runs the local ones
Dispatcher = Callable[[Tensor, Tensor, RunExperts], Tensor]


class MixtureOfExperts(nn.Module):
    def __init__(
        self,
        dim: int,
        experts: Sequence[nn.Module],
        top_k: int,
        capacity_factor: float | None,
        balance_loss: float,
        jitter: float,
    ) -> None:
        super().__init__()
        self.router = nn.Linear(dim, len(experts), bias=False)
        self.experts = nn.ModuleList(experts)
        self.top_k = top_k
        self.capacity_factor, self.balance_loss, self.jitter = capacity_factor, balance_loss, jitter
        self.local_experts = range(len(experts))  # the experts of this process
        self.dispatcher: Dispatcher | None = None  # sends tokens to experts of other processes

    def forward(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """x (B, T, D) → (B, T, D); where token_mask (B, T) is False no expert is used: zeros."""
        by_position = x.transpose(0, 1)
        if token_mask is None:
            output = self._route(by_position.flatten(0, 1)).view(by_position.shape)
        else:
            routed = self._route(by_position[token_mask.T])
            output = routed.new_zeros(by_position.shape).index_put((token_mask.T,), routed)
        return output.transpose(0, 1)

    def gates(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """Return the weight of each expert in the output of each token (B, T, E), none dropped."""
        router_probs = self._router_probs(x)
        gates, chosen = self._top_experts(router_probs)
        by_expert = torch.zeros_like(router_probs).scatter(-1, chosen, gates)
        return by_expert if token_mask is None else by_expert * token_mask.unsqueeze(-1)

    def _route(self, tokens: Tensor) -> Tensor:
        """tokens (N, D) → (N, D)."""
        router_probs = self._router_probs(self._jittered(tokens))
        gates, chosen = self._top_experts(router_probs)
        assignments = chosen.flatten()  # (N · k), those of a token side by side
        assigned = assignments.bincount(minlength=len(self.experts))
        order = assignments.argsort(stable=True)  # by expert, then in order of arrival
        taken = assigned
        if self.training:
            order, taken = self._within_capacity(order, assigned)
            add_aux_loss(self._aux_loss(router_probs, assigned, taken))
        token = order // self.top_k
        output = self._run_experts(tokens[token], taken) * gates.flatten()[order, None]
        return output.new_zeros(tokens.shape).index_add(0, token, output)

    def _router_probs(self, tokens: Tensor) -> Tensor:
        """Return p (…, E), in the precision of the router's weights: rounding must not choose."""
        with torch.autocast(tokens.device.type, enabled=False):
            logits: Tensor = self.router(tokens.to(self.router.weight.dtype))
            return logits.softmax(-1)

    def _top_experts(self, router_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gates and the numbers of each token's top k experts, (…, k) each."""
        gates, chosen = router_probs.topk(self.top_k)
        if self.top_k > 1:  # for k = 1 the gate would be 1, and the router would get no gradient
            gates = gates / gates.sum(-1, keepdim=True)
        return gates, chosen

    def _jittered(self, tokens: Tensor) -> Tensor:
        if not self.training or self.jitter == 0:
            return tokens
        drawn = random_bytes(2 * tokens.numel()).view(torch.int16).view(tokens.shape).to(tokens)
        return tokens * (1 + self.jitter / LEVELS * drawn)

    def _within_capacity(self, order: Tensor, assigned: Tensor) -> tuple[Tensor, Tensor]:
        """Return the assignments that are not dropped, and how many each expert takes."""
        if self.capacity_factor is None:
            return order, assigned
        capacity = max(1, math.ceil(self.capacity_factor * len(order) / len(self.experts)))
        first = assigned.cumsum(0) - assigned
        before = torch.arange(len(order), device=order.device) - first.repeat_interleave(assigned)
        return order[before < capacity], assigned.clamp_max(capacity)

    def _aux_loss(self, router_probs: Tensor, assigned: Tensor, taken: Tensor) -> AuxLoss:
        assignments = int(assigned.sum())
        fractions = assigned / max(assignments, 1)
        products = fractions * router_probs.sum(0) / max(len(router_probs), 1)
        imbalance = len(self.experts) * products.sum()
        dropped = assignments - int(taken.sum())
        counts = {"assignments": assignments, "dropped": dropped}
        return AuxLoss(self.balance_loss * imbalance, counts)

    def _run_experts(self, tokens: Tensor, taken: Tensor) -> Tensor:
        """Run every expert on its tokens, which are grouped by expert: (M, D) → (M, D)."""
        if self.dispatcher is None:
            return self._run_local_experts(tokens, taken.tolist())
        return self.dispatcher(tokens, taken, self._run_local_experts)

    def _run_local_experts(self, tokens: Tensor, taken: list[int]) -> Tensor:
        """Run the experts of this process on their tokens."""
        experts = [self.experts[number] for number in self.local_experts]
        groups = zip(experts, torch.split(tokens, taken), strict=True)
        # With gradients, an expert without tokens is called as well: its gradient is then zero and
        # not missing, as processes that sum their gradients expect.
        outputs = [expert(own) for expert, own in groups if len(own) or torch.is_grad_enabled()]
        return torch.cat(outputs) if outputs else tokens


class Spec(FeedForwardSpec):
    """feed_forward: {kind: moe, num_experts: 8, top_k: 2, expert: gated}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "experts": "num_experts",
        "top": "top_k",
        "of": "expert",
        "balance": "balance_loss",
        "capacity": "capacity_factor",
    }

    num_experts: int = Field(8, gt=0, le=4096, description="E, the number of experts in each block")
    top_k: int = Field(2, gt=0, le=4096, description="k, the number of experts of each token")
    expert: FeedForwardSpec = kind_field(
        FeedForwardSpec, "the network of an expert: a kind in layers/feedforward/"
    )
    capacity_factor: float | None = Field(
        None,
        gt=0,
        description="in training, capacity of an expert relative to an even load; null: unlimited",
    )
    balance_loss: float = Field(0.01, ge=0, description="weight of the load-balancing loss")
    jitter: float = Field(
        0.01, ge=0, lt=1, description="in training, relative noise on the router's input"
    )

    @field_validator("expert")
    @classmethod
    def _is_not_a_mixture(cls, expert: FeedForwardSpec) -> FeedForwardSpec:
        if isinstance(expert, Spec):
            raise ValueError("an expert cannot be a mixture of experts itself; try dense or gated")
        return expert

    @model_validator(mode="after")
    def _has_top_k_experts(self) -> Self:
        if self.top_k > self.num_experts:
            raise ValueError(
                f"a token cannot use the top {self.top_k} of {self.num_experts} experts; lower "
                f"'top_k' or raise 'num_experts'"
            )
        return self

    def build(self, dim: int, ffn_dim: int) -> nn.Module:
        if self.num_experts == 1:
            return self.expert.build(dim, ffn_dim)  # nothing to route
        experts = [self.expert.build(dim, ffn_dim) for _ in range(self.num_experts)]
        return MixtureOfExperts(
            dim, experts, self.top_k, self.capacity_factor, self.balance_loss, self.jitter
        )
