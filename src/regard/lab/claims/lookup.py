"""Attention is a soft lookup table, and a dot product measures how well two vectors match."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.masks import AttentionMask
from regard.attention.multi_head import MultiHead
from regard.attention.reference import Reference
from regard.insight.watch import watch
from regard.lab import ratings as films
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, exactly, interval, ratio
from regard.lab.ratings import Ratings
from regard.positions.base import InAttention, Sizes

ROWS = 64  # tables in a batch
TEST_ROWS = 512  # unseen tables
BETWEEN = tuple(step / 10 for step in range(11))  # from one key to another
RATING_ROWS = 1024  # ratings in a batch
PENALTY = 0.02  # weight of the penalty on the factors
MEANS = ("of all", "of the user", "of the film", "of both")

# A user factor, a film factor and their effect on the dot product, as the lecture states it.
CASES: Mapping[str, tuple[float, float, float]] = {
    "likes it, has it": (1.0, 1.0, 1.0),
    "dislikes it, lacks it": (-1.0, -1.0, 1.0),
    "likes it, lacks it": (1.0, -1.0, -1.0),
    "dislikes it, has it": (-1.0, 1.0, -1.0),
    "does not care, has it": (0.0, 1.0, 0.0),
    "does not care, lacks it": (0.0, -1.0, 0.0),
    "does not care, has much of it": (0.0, 8.0, 0.0),
    "likes it much, has much of it": (2.0, 4.0, 8.0),
    "likes it a little, has much of it": (0.5, 4.0, 2.0),
}


class Spec(Claim):
    number: ClassVar[int] = 13
    title: ClassVar[str] = "Attention is a soft lookup"
    statement: ClassVar[str] = (
        "A table matches a query to one key and returns its value; attention matches it to all "
        "keys, with weights between 0 and 1, and returns the weighted average of the values. It "
        "matches by dot products, as in film recommendation: user factors times film factors, "
        "added up."
    )
    experiment: ClassVar[str] = (
        "One head of attention is trained to return the value stored with a key when the query is "
        "that key plus as much noise, in random tables; then it gets queries on the line from one "
        "key to another. User and film factors of every sign are multiplied. Users and films that "
        "are known only by ratings get vectors whose dot products explain the ratings (matrix "
        "factorization), and predict a held-out fifth of them, compared with the best of four "
        "means."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "finds": Criterion("weight on the correct key, in unseen tables", at_least=0.8),
        "returns": Criterion("cosine of the output and the stored value", at_least=0.9),
        "mixes": Criterion(
            "cosine of the output and the mean value, halfway between two keys",
            at_least=0.85,
        ),
        "cases": Criterion(
            "share of the cases of sign and magnitude that agree with the lecture",
            at_least=1.0,
            by_construction="a product of two numbers has no other value",
        ),
        "predicts": Criterion(
            "error on held-out ratings, dot products over the best mean", at_most=0.99
        ),
    }
    quick: ClassVar[Mapping[str, Any]] = {"steps": 100, "rating_steps": 50, "seeds": 1}

    size: int = Field(16, gt=0, description="size of a key and of a value")
    entries: int = Field(16, gt=1, description="entries of a table")
    noise: float = Field(
        1.0, ge=0, description="standard deviation of the noise of a query, for keys of deviation 1"
    )
    steps: int = Field(1500, gt=0, description="training steps of the head")
    ratings: Path | None = Field(
        None, description="ratings in MovieLens format (default: generated)"
    )
    rank: int = Field(6, gt=0, description="number of factors")
    rating_steps: int = Field(1500, gt=0, description="training steps of the factors")

    def gather(self, experiment: Experiment) -> Evidence:
        from_file = None
        if self.ratings is not None:
            with experiment.report.busy(f"Reading {self.ratings}"):
                from_file = films.read(self.ratings)
        tables, errors = [], []
        with experiment.plan(self.seeds * (self.steps + self.rating_steps)):
            for seed in range(self.seeds):
                tables.append(self._table(experiment, seed))
                rated = films.generated(seed) if from_file is None else from_file
                errors.append(self._errors(experiment, rated, seed))
        return {
            "tables": tables,
            "contributions": {
                name: _contribution(user_factor, film_factor)
                for name, (user_factor, film_factor, _) in CASES.items()
            },
            "errors": errors,
            "ratings": len(rated.stars),
        }

    def _table(self, experiment: Experiment, seed: int) -> dict[str, Any]:
        """Train a head to look up, and measure it on unseen tables."""
        torch.manual_seed(seed)
        head = _Lookup(self.size, self.entries).to(experiment.device)

        def loss(model: nn.Module, step: int) -> Tensor:
            keys, values, queries = self._drawn(ROWS, seed, step)
            output = model(*(tensor.to(experiment.device) for tensor in (keys, values, queries)))
            return nn.functional.mse_loss(output, values.to(experiment.device))

        experiment.fit(head, loss, self.steps)
        keys, values, queries = (
            tensor.to(experiment.device) for tensor in self._drawn(TEST_ROWS, seed, self.steps)
        )
        output, weights = head.with_weights(keys, values, queries)
        between = torch.stack(
            [torch.lerp(keys[:, 0], keys[:, 1], fraction) for fraction in BETWEEN], dim=1
        )
        returned, weights_between = head.with_weights(keys, values, between)
        halfway, mean = returned[:, BETWEEN.index(0.5)], values[:, :2].mean(1)
        return {
            "weight": float(weights.diagonal(dim1=1, dim2=2).mean()),
            "returned": float(nn.functional.cosine_similarity(output, values, dim=-1).mean()),
            "mixture": float(nn.functional.cosine_similarity(halfway, mean).mean()),
            "first": weights_between[..., 0].mean(0).tolist(),
            "second": weights_between[..., 1].mean(0).tolist(),
        }

    def _drawn(self, rows: int, *seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """Draw keys, values, and the keys with noise: three times (rows, entries, size)."""
        rng = generator(*seed)
        shape = (rows, self.entries, self.size)
        keys, values, noise = (torch.randn(shape, generator=rng) for _ in range(3))
        keys = nn.functional.normalize(keys, dim=-1) * self.size**0.5
        return keys, values, keys + self.noise * noise

    def _errors(self, experiment: Experiment, rated: Ratings, seed: int) -> dict[str, float]:
        """Return the held-out errors of the means, and of dot products trained on the rest."""
        train, held_out = rated.split(seed)
        sizes = int(rated.users.max()) + 1, int(rated.films.max()) + 1
        torch.manual_seed(seed)
        model = _MatrixFactorization(*sizes, self.rank, float(train.stars.mean()))

        def loss(model: nn.Module, step: int) -> Tensor:
            rng = generator(seed, step)
            batch = train.some(torch.randint(len(train.stars), (RATING_ROWS,), generator=rng))
            assert isinstance(model, _MatrixFactorization)
            error: Tensor = (model(batch.users, batch.films) - batch.stars).square().mean()
            return error + PENALTY * model.penalty(batch)

        experiment.fit(model, loss, self.rating_steps, rate=0.02)
        with torch.no_grad():
            predictions = _means(train, held_out, sizes)
            predictions["dot products"] = model(held_out.users, held_out.films)
        return {
            name: float((prediction - held_out.stars).square().mean().sqrt())
            for name, prediction in predictions.items()
        }

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        tables, errors = evidence["tables"], evidence["errors"]
        agrees = [evidence["contributions"][name] == adds for name, (_, _, adds) in CASES.items()]
        best = [min(error[name] for name in MEANS) for error in errors]
        return {
            "finds": interval([table["weight"] for table in tables]),
            "returns": interval([table["returned"] for table in tables]),
            "mixes": interval([table["mixture"] for table in tables]),
            "cases": exactly(sum(agrees) / len(agrees)),
            "predicts": ratio([error["dot products"] for error in errors], best),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        errors, tables = evidence["errors"], evidence["tables"]
        cases = [
            [
                name,
                f"{user_factor:+g}",
                f"{film_factor:+g}",
                f"{evidence['contributions'][name]:+g}",
            ]
            for name, (user_factor, film_factor, _) in CASES.items()
        ]
        predictions = [
            [
                name if name not in MEANS else f"mean {name}",
                str(interval([error[name] for error in errors])),
            ]
            for name in errors[0]
        ]
        lines = {
            f"{which} key": {
                fraction: interval([table[which][index] for table in tables])
                for index, fraction in enumerate(BETWEEN)
            }
            for which in ("first", "second")
        }
        source = "generated" if self.ratings is None else self.ratings.name
        return [
            Plot(
                "Between two keys", "position between the first key and the second", "weight", lines
            ),
            Table("One factor", ["", "user factor", "film factor", "product"], cases),
            Table(
                f"{evidence['ratings']:,} ratings ({source}), a fifth held out",
                ["predictor", "error (RMSE, stars)"],
                predictions,
            ),
        ]


class _Lookup(nn.Module):
    """One head over tokens that are a key beside a value; a query is a key beside zeros."""

    def __init__(self, size: int, entries: int) -> None:
        super().__init__()
        self.size = size
        sizes = Sizes(2 * size, heads=1, head_dim=2 * size, max_length=entries)
        self.head = MultiHead(sizes, Reference(), InAttention(), bias=False)

    def forward(self, keys: Tensor, values: Tensor, queries: Tensor) -> Tensor:
        """Look up queries (B, T, size) in tables (B, S, size): (B, T, size)."""
        mask = AttentionMask.cross(queries.size(1), keys.new_ones(keys.shape[:2], dtype=torch.bool))
        padded_queries = torch.cat([queries, torch.zeros_like(queries)], dim=-1)
        cache = self.head.project_keys_values(torch.cat([keys, values], dim=-1), mask.keys)
        output: Tensor = self.head(
            self.head.project_queries(padded_queries, mask.queries), cache, mask
        )
        return output[..., self.size :]

    @torch.no_grad()
    def with_weights(self, keys: Tensor, values: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same, and the weights (B, T, S)."""
        with watch(self, {"weights"}) as seen:
            output = self(keys, values, queries)
        return output, seen.weights("head")[:, 0]


class _MatrixFactorization(nn.Module):
    """stars ≈ mean + user bias + film bias + user factors · film factors"""

    def __init__(self, users: int, films: int, rank: int, mean: float) -> None:
        super().__init__()
        self.mean = mean
        self.user_factors, self.film_factors = nn.Embedding(users, rank), nn.Embedding(films, rank)
        self.user_bias, self.film_bias = nn.Embedding(users, 1), nn.Embedding(films, 1)
        for embedding in (self.user_factors, self.film_factors):
            nn.init.normal_(embedding.weight, std=0.1)
        for embedding in (self.user_bias, self.film_bias):
            nn.init.zeros_(embedding.weight)

    def forward(self, users: Tensor, films: Tensor) -> Tensor:
        biases = self.user_bias(users) + self.film_bias(films)
        products = dot_products(self.user_factors(users), self.film_factors(films))
        stars: Tensor = self.mean + biases[:, 0] + products
        return stars

    def penalty(self, batch: Ratings) -> Tensor:
        """Return the mean squared norm of the factors of a batch, as a penalty."""
        parts = (
            *(embedding(batch.users) for embedding in (self.user_factors, self.user_bias)),
            *(embedding(batch.films) for embedding in (self.film_factors, self.film_bias)),
        )
        return torch.stack([part.square().sum(-1).mean() for part in parts]).sum()


def dot_products(users: Tensor, films: Tensor) -> Tensor:
    """Return the dot products of user and film factors: (…, rank), twice → (…)."""
    return (users * films).sum(-1)


def _contribution(user_factor: float, film_factor: float) -> float:
    """Return what one user and one film factor add to a dot product with two more factors."""
    user, film = torch.tensor([3.0, -1.0, user_factor]), torch.tensor([0.5, 2.0, film_factor])
    others = torch.tensor([1.0, 1.0, 0.0])
    return float(dot_products(user, film) - dot_products(user * others, film))


def _means(train: Ratings, held_out: Ratings, sizes: tuple[int, int]) -> dict[str, Tensor]:
    """Predict held-out ratings by each mean of the training ratings.

    Users and films without training ratings get the overall mean.
    """
    overall = train.stars.mean()
    of_user, of_film = (
        overall + _bias(side, train.stars - overall, size)
        for side, size in zip((train.users, train.films), sizes, strict=True)
    )
    user, film = of_user[held_out.users], of_film[held_out.films]
    predictions = (overall.expand_as(user), user, film, user + film - overall)
    return dict(zip(MEANS, predictions, strict=True))


def _bias(side: Tensor, residuals: Tensor, size: int) -> Tensor:
    """Return the mean rating of each index minus the overall mean, (size,)."""
    sums = torch.zeros(size).index_add(0, side, residuals)
    return sums / torch.bincount(side, minlength=size).clamp_min(1)
