"""Training on a text is parallel; generating one needs a model call for each token."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from regard.data.batches.base import IGNORE_INDEX, pad
from regard.data.bundled import corpus
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.decoding_strategies import MAX_TOKENS, Strategies
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, exponent, interval, ratio
from regard.models.base import ModelSpec, parameter_count

ROWS = 64  # sentences in a batch
OPENING = 2  # tokens of a prompt
TIMED = 3  # calls timed together
HEADS = 4
WAYS = ("without a cache", "with a cache")


class Spec(Claim):
    number: ClassVar[int] = 14
    title: ClassVar[str] = "Decoding is sequential"
    statement: ClassVar[str] = (
        "Training processes all tokens of a text in parallel, but generation needs each token "
        "before the next; a KV cache avoids processing the prefix again, and speculative decoding "
        "recovers part of the lost time."
    )
    experiment: ClassVar[str] = (
        "A language model and a smaller draft model are trained on the English sentences of the "
        "bundled corpus, and greedily continue the first two tokens of held-out sentences. Model "
        "calls per generated token are counted for autoregressive decoding; for parallel (Jacobi) "
        "decoding, in which all positions are predicted at once and again until they are correct; "
        "and for speculative decoding with the draft model, whose draft length is chosen by the "
        "time with the first seed and evaluated on the others. A given text is processed in one "
        "call and token by token, and the logits are compared. The time of one more token is "
        "measured for growing prefixes, with and without a KV cache, in plain torch, and a power "
        "of the length is fitted in each round."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "given": Criterion(
            "largest logit difference, given text in one call or token by token", at_most=1e-3
        ),
        "one_by_one": Criterion(
            "calls per generated token, autoregressive", at_least=1.0, at_most=1.0
        ),
        "at_once": Criterion("calls per generated token, parallel until correct", at_least=0.5),
        "uncached": Criterion(
            "exponent of the time per token in the length, no cache", at_least=0.8
        ),
        "cached": Criterion("exponent of the time per token in the length, KV cache", at_most=0.5),
        "same": Criterion("share of sentences equal under speculative decoding", at_least=1.0),
        "fewer": Criterion("calls of the large model per token, speculative", at_most=0.7),
        "wins": Criterion("time of speculative decoding over autoregressive", at_most=1.0),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "lengths": (32, 128, 512),
        "rounds": 3,
        "trained": 300,
        "openings": 3,
        "steps": 12,
        "vocabulary": 400,
        "dim": 32,
        "layers": 3,
        "draft_dim": 16,
        "ahead": (1, 4),
        "seeds": 2,
    }

    lengths: tuple[int, ...] = Field(
        (128, 256, 512, 1024, 2048), description="prefix lengths at which a token is timed"
    )
    rounds: int = Field(7, gt=0, description="timing rounds")
    trained: int = Field(12_000, gt=0, description="training sentences")
    openings: int = Field(24, gt=0, description="prompts")
    steps: int = Field(400, gt=0, description="training steps of each model")
    vocabulary: int = Field(1500, ge=300, description="vocabulary size of the tokenizer")
    dim: int = Field(128, gt=0, multiple_of=HEADS * 2, description="D of the model")
    layers: int = Field(6, gt=0, description="layers of the model")
    draft_dim: int = Field(64, gt=0, multiple_of=HEADS * 2, description="D of the draft model")
    draft_layers: int = Field(1, gt=0, description="layers of the draft model")
    ahead: tuple[int, ...] = Field((1, 2, 4), min_length=1, description="draft lengths to try")
    seeds: int = Field(3, gt=1, description="number of repetitions with different random seeds")

    @field_validator("lengths")
    @classmethod
    def _several(cls, given: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(given)) < 2 or min(given) < 2:
            raise ValueError("give at least two lengths, each at least 2")
        return given

    def gather(self, experiment: Experiment) -> Evidence:
        timed = len(self.lengths) * len(WAYS) * self.rounds
        ways = 1 + len(self.ahead)
        with experiment.plan(timed + self.seeds * (2 * self.steps + ways * self.rounds)):
            times = self._times(experiment)
            said = [self._said(experiment, seed) for seed in range(self.seeds)]
        return {"times": times, "said": said}

    def _spec(self, dim: int, layers: int) -> ModelSpec:
        room = max(*self.lengths, 64) + MAX_TOKENS
        settings = {"kind": "language-model", "heads": HEADS, "dropout": 0.0, "max_length": room}
        return ModelSpec.model_validate(
            {**settings, "dim": dim, "ffn_dim": 2 * dim, "layers": layers}
        )

    def _times(self, experiment: Experiment) -> dict[str, list[list[float]]]:
        """Return the time of a token by cache, prefix length and round."""
        torch.manual_seed(0)  # the weights do not affect the time
        model: Any = self._spec(self.dim, self.layers).build(self.vocabulary).to(experiment.device)
        model.eval()
        calls = {}
        for length in self.lengths:
            ids = torch.randint(self.vocabulary, (1, length), generator=generator(0, length))
            ids = ids.to(experiment.device)
            with torch.inference_mode():
                _, state = model.extend(ids[:, :-1], model.start())
            calls[f"{WAYS[0]} {length}"] = _repeated(_last_logits, model, ids)
            calls[f"{WAYS[1]} {length}"] = _repeated(model.step, ids[:, -1], state)
        taken = experiment.seconds(calls, self.rounds)
        return {
            way: [[each / TIMED for each in taken[f"{way} {length}"]] for length in self.lengths]
            for way in WAYS
        }

    def _said(self, experiment: Experiment, seed: int) -> dict[str, Any]:
        """Train both models and count the calls of every strategy."""
        drawn = corpus(seed + 1, self.trained, max(40, self.openings), 0)
        maker = TokenizerSpec.model_validate({"vocabulary": self.vocabulary})
        tokenizer = maker.train(pair.english for pair in drawn.train)
        rows = [_row(tokenizer, pair.english) for pair in drawn.train]
        large, small = (
            self._learned(experiment, self._spec(*size), len(tokenizer), rows, tokenizer.pad, seed)
            for size in ((self.dim, self.layers), (self.draft_dim, self.draft_layers))
        )
        begun = [
            [tokenizer.start, *tokenizer.encode(" ".join(pair.english.split()[:OPENING]))]
            for pair in drawn.dev[: self.openings]
        ]
        told = Strategies(large, small, tokenizer.end)
        plainly = [told.autoregressive(words) for words in begun]
        guessed = {ahead: [told.speculative(each, ahead) for each in begun] for ahead in self.ahead}
        at_once = [told.parallel(*each) for each in zip(begun, plainly, strict=True)]
        words = sum(len(each.tokens) for each in plainly)
        ways: dict[str, Any] = {"plainly": lambda: [told.autoregressive(each) for each in begun]}
        for ahead in self.ahead:
            ways[str(ahead)] = partial(_all_told, told, begun, ahead)
        taken = experiment.seconds(ways, self.rounds)
        return {
            "parameters": [parameter_count(large), parameter_count(small)],
            "words": words,
            "calls": sum(each.calls for each in plainly),
            "calls_at_once": sum(at_once),
            "guessed": {
                str(ahead): {
                    "calls": sum(each.calls for each in found),
                    "guesses": sum(each.drafted for each in found),
                    "same": [a.tokens == b.tokens for a, b in zip(plainly, found, strict=True)],
                }
                for ahead, found in guessed.items()
            },
            "given": max(_one_call_or_many(large, row) for row in rows[: self.openings]),
            "seconds": taken,
            "example": tokenizer.decode([*begun[0], *plainly[0].tokens]),
        }

    def _learned(
        self,
        experiment: Experiment,
        spec: ModelSpec,
        vocabulary: int,
        rows: Sequence[list[int]],
        pad_id: int,
        seed: int,
    ) -> nn.Module:
        torch.manual_seed(seed)
        model = spec.build(vocabulary).to(experiment.device)

        def loss(model: nn.Module, step: int) -> Tensor:
            picked = np.random.default_rng([seed, step]).integers(len(rows), size=ROWS)
            ids, token_mask = (
                each.to(experiment.device) for each in pad([rows[i] for i in picked], pad_id)
            )
            wanted = ids[:, 1:].masked_fill(~token_mask[:, 1:], IGNORE_INDEX)
            logits = model(ids[:, :-1])
            return nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())

        experiment.fit(model, loss, self.steps)
        return model

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        said, times = evidence["said"], evidence["times"]
        calls = {
            name: interval([each[name] / each["words"] for each in said])
            for name in ("calls", "calls_at_once")
        }
        grows = {
            way: interval(
                [exponent(self.lengths, column).mean for column in zip(*times[way], strict=True)]
            )
            for way in WAYS
        }
        ahead, *_ = self._ahead(said)
        judged = said[1:]
        guessed, plainly = (
            [second for each in judged for second in each["seconds"][way]]
            for way in (ahead, "plainly")
        )
        return {
            "given": interval([each["given"] for each in said]),
            "one_by_one": calls["calls"],
            "at_once": calls["calls_at_once"],
            "uncached": grows[WAYS[0]],
            "cached": grows[WAYS[1]],
            "same": interval([float(np.mean(_of_all(each, "same"))) for each in said]),
            "fewer": interval([_share(each, ahead) for each in judged]),
            "wins": ratio(guessed, plainly),
        }

    def _ahead(self, said: Sequence[Any]) -> list[str]:
        """Return the draft lengths, fastest first, by the first seed."""
        seconds = said[0]["seconds"]
        return sorted(map(str, self.ahead), key=lambda each: median(seconds[each]))

    def show(self, evidence: Evidence) -> list[Figure]:
        said, times = evidence["said"], evidence["times"]
        by_length = {
            way: {
                float(length): interval([1000 * each for each in rounds])
                for length, rounds in zip(self.lengths, times[way], strict=True)
            }
            for way in WAYS
        }
        lengths = [
            [f"{length:,}", *(f"{1000 * median(times[way][at]):.2f} ms" for way in WAYS)]
            for at, length in enumerate(self.lengths)
        ]
        counted = [
            [way, str(interval([each[name] / each["words"] for each in said])), "", ""]
            for way, name in {"one by one": "calls", "all at once": "calls_at_once"}.items()
        ]
        for ahead in map(str, self.ahead):
            columns = ([of(each, ahead) for each in said] for of in (_share, _right, _slower))
            counted.append([f"{ahead} guessed at a time", *(str(interval(c)) for c in columns)])
        large, small = said[0]["parameters"]
        return [
            Table(
                f"Calls of the model ({large:,} parameters; draft model: {small:,})",
                ["strategy", "calls per token", "accepted", "time over autoregressive"],
                counted,
            ),
            Table("Time of one more token (medians)", ["prefix tokens", *WAYS], lengths),
            Plot(
                "Time of one more token",
                "prefix tokens",
                "milliseconds",
                by_length,
                log_x=True,
                log_y=True,
            ),
        ]


def _all_told(told: Strategies, begun: Sequence[list[int]], ahead: int) -> None:
    for each in begun:
        told.speculative(each, ahead)


def _share(said: Any, ahead: str) -> float:
    """Return the calls per token at a draft length."""
    return float(said["guessed"][ahead]["calls"] / said["words"])


def _right(said: Any, ahead: str) -> float:
    """Return the share of accepted draft tokens: each saves a call."""
    found = said["guessed"][ahead]
    return float((said["words"] - found["calls"]) / max(1, found["guesses"]))


def _slower(said: Any, ahead: str) -> float:
    return float(median(said["seconds"][ahead]) / median(said["seconds"]["plainly"]))


def _of_all(said: Any, name: str) -> list[Any]:
    return [each for found in said["guessed"].values() for each in found[name]]


def _row(tokenizer: Tokenizer, sentence: str) -> list[int]:
    return [tokenizer.start, *tokenizer.encode(sentence), tokenizer.end]


@torch.inference_mode()
def _one_call_or_many(model: Any, row: list[int]) -> float:
    """Return the largest difference of logits between one call and token by token."""
    ids = torch.tensor([row], device=next(model.parameters()).device)
    state, one_by_one = model.start(), []
    for word in ids.unbind(1):
        logits, state = model.step(word, state)
        one_by_one.append(logits)
    return float((model(ids) - torch.stack(one_by_one, dim=1)).abs().max())


def _last_logits(model: Any, ids: Tensor) -> Tensor:
    """Return the logits of the next token only: decoding without a cache needs no others."""
    logits: Tensor = model.output(model.states(ids)[:, -1])
    return logits


def _repeated(call: Any, *given: Any) -> Any:
    @torch.inference_mode()
    def several() -> None:
        for _ in range(TIMED):
            call(*given)

    return several
