"""Attention without feed-forward networks only averages values, at any depth."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.attention.multi_head import MultiHead
from regard.attention.reference import Reference
from regard.lab import tasks
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, interval, proportion
from regard.layers.activations import relu
from regard.layers.feedforward.dense import Dense
from regard.models.base import parameter_count
from regard.positions.base import InAttention, Sizes

TOKENS = 32  # tokens of the untrained stack
RANK = 4  # token vectors are mixtures of RANK vectors
BITS = 6  # tokens of the XOR task; the label depends on the first two
TEST_ROWS = 1024
Scores = Literal["positions", "tokens"]
STACKS = ("attention", "attention and feed-forward", "both and residuals")
# A layer of attention has four D × D matrices, and so has a feed-forward network 2·D wide.
ARMS: Mapping[str, tuple[Scores, int, bool]] = {
    "attention": ("positions", 4, False),
    "attention and feed-forward": ("positions", 2, True),
    "attention, scores from tokens": ("tokens", 4, False),
}


class Spec(Claim):
    number: ClassVar[int] = 6
    title: ClassVar[str] = "Attention alone only averages values"
    statement: ClassVar[str] = (
        "Attention has no non-linearity except its softmax: given the weights it is linear in the "
        "values, so a stack of attention layers only averages them again; a feed-forward network "
        "after each layer adds the missing non-linearity."
    )
    experiment: ClassVar[str] = (
        "A stack of random one-head attention layers, without residual connections and norms, "
        "reads 32 token vectors that are mixtures of 4 vectors. Its output is compared with the "
        "single average P X W, where P is the product of the attention weights of all layers and W "
        "the product of their linear maps. By depth, the experiment measures the part of the "
        "output outside the first 4 singular directions and the distance of the token vectors from "
        "their mean: for attention alone, with a feed-forward network after each layer, and with "
        "residual connections too. Then stacks with equal parameter counts are trained to predict "
        "whether two bits differ (XOR), which no linear map can predict in more than 3 of 4 cases: "
        "attention whose scores depend on positions only, so that the bits are in the values only, "
        "with and without feed-forward networks. When the scores depend on the tokens themselves, "
        "the softmax is a non-linearity of the tokens; that result is shown too, and is not a "
        "criterion."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "average": Criterion("relative difference of the output and P X W", at_most=1e-3),
        "weights": Criterion(
            "largest deviation of a row sum of P from 1",
            at_most=1e-4,
            by_construction="every row of a softmax sums to 1",
        ),
        "rank": Criterion(
            "share outside 4 singular directions, largest over depths, attention", at_most=1e-5
        ),
        "rank_with_feed_forward": Criterion(
            "share outside 4 singular directions after one layer, with feed-forward", at_least=0.01
        ),
        "collapse": Criterion(
            "distance of token vectors to their mean at the greatest depth, over that of the input",
            at_most=0.01,
        ),
        "xor_attention": Criterion(
            "accuracy on XOR of two bits, attention",
            at_most=0.8,
            by_construction="no linear map is correct in more than 3 of 4 cases",
        ),
        "xor_feed_forward": Criterion(
            "accuracy on XOR of two bits, attention and feed-forward", at_least=0.95
        ),
    }
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "steps": 50, "dim": 32, "depths": (1, 4, 12)}

    depths: tuple[int, ...] = Field((1, 2, 3, 4, 6, 8, 12), description="numbers of layers")
    dim: int = Field(64, gt=0, description="D")
    steps: int = Field(500, gt=0, description="training steps on the two bits")

    def gather(self, experiment: Experiment) -> Evidence:
        stacks: list[dict[str, Any]] = []
        accuracies: dict[str, list[float]] = {arm: [] for arm in ARMS}
        sizes: dict[str, int] = {}
        with experiment.plan(self.seeds * (1 + self.steps * len(ARMS))):
            for seed in range(self.seeds):
                stacks.append({name: self._by_depth(seed, name) for name in STACKS})
                experiment.advance(1)
                for arm in ARMS:
                    accuracy, sizes[arm] = self._accuracy(experiment, arm, seed)
                    accuracies[arm].append(accuracy)
        return {"stacks": stacks, "accuracy": accuracies, "parameters": sizes}

    @torch.no_grad()
    def _by_depth(self, seed: int, name: str) -> list[dict[str, float]]:
        """Measure a stack on token vectors of low rank, layer by layer."""
        torch.manual_seed(seed)
        rng = generator(seed)
        vectors = torch.randn(RANK, self.dim, generator=rng, dtype=torch.float64)
        inputs = torch.randn(1, TOKENS, RANK, generator=rng, dtype=torch.float64) @ vectors
        inputs /= RANK**0.5
        layers = nn.ModuleList(_Layer(self.dim, name != STACKS[0]) for _ in range(max(self.depths)))
        x, averaged = inputs, torch.eye(TOKENS, dtype=torch.float64)
        mapped, measurements = torch.eye(self.dim, dtype=torch.float64), []
        for depth, layer in enumerate(layers.double(), start=1):
            assert isinstance(layer, _Layer)
            averaged = layer.weights(x) @ averaged
            mapped = mapped @ (layer.attention.w_o.weight @ layer.attention.w_v.weight).T
            x = layer(x, x) + (x if name == STACKS[2] else 0.0)
            if depth in self.depths:
                average = averaged @ inputs[0] @ mapped
                measurements.append(
                    {
                        "depth": depth,
                        "difference": float((x[0] - average).norm() / x.norm()),
                        "row_sum_error": float((averaged.sum(-1) - 1).abs().max()),
                        "outside": _outside(x[0]),
                        "spread": _spread(x[0]) / _spread(inputs[0]),
                    }
                )
        return measurements

    def _accuracy(self, experiment: Experiment, arm: str, seed: int) -> tuple[float, int]:
        torch.manual_seed(seed)
        model = _Bits(self.dim, *ARMS[arm]).to(experiment.device)

        def batch(rows: int, *numbers: int) -> tuple[Tensor, Tensor]:
            bits = torch.randint(2, (rows, BITS), generator=generator(*numbers)).to(
                experiment.device
            )
            return bits, bits[:, 0] ^ bits[:, 1]

        def loss(_: nn.Module, step: int) -> Tensor:
            bits, labels = batch(tasks.ROWS, seed, step)
            return nn.functional.cross_entropy(model(bits), labels)

        experiment.fit(model, loss, self.steps)
        bits, labels = batch(TEST_ROWS, seed, self.steps)
        with torch.no_grad():
            accuracy = float((model(bits).argmax(-1) == labels).float().mean())
        return accuracy, parameter_count(model)

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        attention_only, with_feed_forward = (
            [stack[name] for stack in evidence["stacks"]] for name in STACKS[:2]
        )
        without_ffn, with_ffn = (
            proportion(values, TEST_ROWS * len(values))
            for values in (evidence["accuracy"][arm] for arm in list(ARMS)[:2])
        )
        return {
            "average": interval(
                [max(layer["difference"] for layer in rows) for rows in attention_only]
            ),
            "weights": interval(
                [max(layer["row_sum_error"] for layer in rows) for rows in attention_only]
            ),
            "rank": interval([max(layer["outside"] for layer in rows) for rows in attention_only]),
            "rank_with_feed_forward": interval([rows[0]["outside"] for rows in with_feed_forward]),
            "collapse": interval([rows[-1]["spread"] for rows in attention_only]),
            "xor_attention": without_ffn,
            "xor_feed_forward": with_ffn,
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        def line(name: str, measure: str) -> dict[float, Interval]:
            by_depth = zip(*(stacks[name] for stacks in evidence["stacks"]), strict=True)
            return {
                float(seeds[0]["depth"]): interval([seed[measure] for seed in seeds])
                for seeds in by_depth
            }

        measures = ("outside", "spread")
        columns = [line(name, measure) for measure in measures for name in STACKS]
        head = ["layers", *(f"{measure}: {name}" for measure in measures for name in STACKS)]
        accuracy = [
            [arm, f"{evidence['parameters'][arm]:,}", str(interval(values))]
            for arm, values in evidence["accuracy"].items()
        ]
        return [
            Table(
                f"{TOKENS} tokens: share outside {RANK} directions, and distance to their mean",
                head,
                [
                    [f"{depth:g}", *(str(column[depth]) for column in columns)]
                    for depth in columns[0]
                ],
            ),
            Table("XOR of two bits", ["", "parameters", "accuracy"], accuracy),
            Plot(
                "Distance of token vectors to their mean",
                "layers",
                "distance, over that of the input",
                {name: line(name, "spread") for name in STACKS},
                log_y=True,
            ),
        ]


class _Layer(nn.Module):
    """One head of attention and, if `fed`, a feed-forward network."""

    def __init__(self, dim: int, fed: bool) -> None:
        super().__init__()
        sizes = Sizes(dim, 1, dim, max_length=max(TOKENS, BITS))
        self.attention = MultiHead(sizes, Reference(), InAttention(), bias=False)
        self.feed_forward = Dense(dim, 2 * dim, relu.Spec(), bias=True) if fed else nn.Identity()
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)

    def forward(self, x: Tensor, scored: Tensor) -> Tensor:
        """Return x (B, T, D) averaged with the attention weights of `scored`, and mapped."""
        mask = AttentionMask.bidirectional(x.size(1), x.device)
        q, memory = self.attention.project_qkv(scored, mask.queries)
        values = self.attention.project_keys_values(x, mask.keys).values
        output: Tensor = self.feed_forward(self.attention(q, KVCache(memory.keys, values), mask))
        return output

    def weights(self, x: Tensor) -> Tensor:
        """Return the attention weights of x (1, T, D): (T, T)."""
        mask = AttentionMask.bidirectional(x.size(1), x.device)
        q, memory = self.attention.project_qkv(x, mask.queries)
        kernel = self.attention.attention
        return kernel.attend_with_weights(
            q, memory.keys, memory.values, mask, self.attention.position
        )[1][0, 0]


class _Bits(nn.Module):
    """Read bits (B, T) and return logits (B, 2) from the output at the first position."""

    def __init__(self, dim: int, scores: Scores, layers: int, fed: bool) -> None:
        super().__init__()
        self.bits = nn.Embedding(2, dim)
        self.positions = nn.Parameter(torch.randn(BITS, dim))
        self.layers = nn.ModuleList(_Layer(dim, fed) for _ in range(layers))
        self.output = nn.Linear(dim, 2)
        self.scores = scores

    def forward(self, bits: Tensor) -> Tensor:
        positions = self.positions.expand(len(bits), -1, -1)
        x = self.bits(bits) + positions
        for layer in self.layers:
            x = layer(x, positions if self.scores == "positions" else x)
        logits: Tensor = self.output(x[:, 0])
        return logits


def _outside(x: Tensor) -> float:
    """Return the share of token vectors (T, D) outside their first RANK singular directions."""
    lengths = torch.linalg.svdvals(x)
    return float(lengths[RANK:].norm() / lengths.norm())


def _spread(x: Tensor) -> float:
    """Return the distance of token vectors (T, D) to their mean, over their norm."""
    return float((x - x.mean(0)).norm() / x.norm())
