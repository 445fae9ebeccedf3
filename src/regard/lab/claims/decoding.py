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
from regard.lab.intervals import Interval, exponent, interval, proportion, ratio, select_by_others
from regard.models.base import ModelSpec, parameter_count

ROWS = 64  # sentences in a batch
PROMPT_WORDS = 2
TIMED = 3  # calls timed together
HEADS = 4
CACHES = ("without a cache", "with a cache")
AUTOREGRESSIVE = "autoregressive"


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
        "and for speculative decoding with the draft model, whose draft length is chosen, for "
        "each seed, by the time with the other seeds. A given text is processed in one "
        "call and token by token, and the logits are compared. The time of one more token is "
        "measured for growing prefixes, with and without a KV cache, in plain torch, and a power "
        "of the length is fitted in each round."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "prefill": Criterion(
            "largest logit difference, given text in one call or token by token", at_most=1e-3
        ),
        "autoregressive": Criterion(
            "calls per generated token, autoregressive",
            at_least=1.0,
            at_most=1.0,
            by_construction="one call for each token is what autoregressive means",
        ),
        "parallel": Criterion("calls per generated token, parallel until correct", at_least=0.5),
        "uncached": Criterion(
            "exponent of the time per token in the length, no cache", at_least=0.8
        ),
        "cached": Criterion("exponent of the time per token in the length, KV cache", at_most=0.5),
        "same": Criterion(
            "share of prompts with the same output under speculative decoding", at_least=0.95
        ),
        "fewer": Criterion("calls of the large model per token, speculative", at_most=0.7),
        "wins": Criterion("time of speculative decoding over autoregressive", at_most=1.0),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "lengths": (32, 128, 512),
        "rounds": 3,
        "train_sentences": 300,
        "prompts": 3,
        "steps": 12,
        "vocabulary": 400,
        "dim": 32,
        "layers": 3,
        "draft_dim": 16,
        "draft_lengths": (1, 4),
        "seeds": 2,
    }

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "trained": "train_sentences",
        "openings": "prompts",
        "ahead": "draft_lengths",
    }

    lengths: tuple[int, ...] = Field(
        (128, 256, 512, 1024, 2048), description="prefix lengths at which a token is timed"
    )
    rounds: int = Field(7, gt=0, description="timing rounds")
    train_sentences: int = Field(12_000, gt=0, description="training sentences")
    prompts: int = Field(24, gt=0, description="prompts")
    steps: int = Field(400, gt=0, description="training steps of each model")
    vocabulary: int = Field(1500, ge=300, description="vocabulary size of the tokenizer")
    dim: int = Field(128, gt=0, multiple_of=HEADS * 2, description="D of the model")
    layers: int = Field(6, gt=0, description="layers of the model")
    draft_dim: int = Field(64, gt=0, multiple_of=HEADS * 2, description="D of the draft model")
    draft_layers: int = Field(1, gt=0, description="layers of the draft model")
    draft_lengths: tuple[int, ...] = Field(
        (1, 2, 4), min_length=1, description="draft lengths to try"
    )
    seeds: int = Field(3, gt=1, description="number of repetitions with different random seeds")

    @field_validator("lengths")
    @classmethod
    def _check_lengths(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(lengths)) < 2 or min(lengths) < 2:
            raise ValueError("give at least two lengths, each at least 2")
        return lengths

    def gather(self, experiment: Experiment) -> Evidence:
        timed = len(self.lengths) * len(CACHES) * self.rounds
        strategies = 1 + len(self.draft_lengths)
        with experiment.plan(timed + self.seeds * (2 * self.steps + strategies * self.rounds)):
            times = self._times(experiment)
            runs = [self._run(experiment, seed) for seed in range(self.seeds)]
        return {"times": times, "runs": runs}

    def _spec(self, dim: int, layers: int) -> ModelSpec:
        max_length = max(*self.lengths, 64) + MAX_TOKENS
        settings = {
            "kind": "language-model",
            "heads": HEADS,
            "dropout": 0.0,
            "max_length": max_length,
        }
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
            calls[f"{CACHES[0]} {length}"] = _repeated(_last_logits, model, ids)
            calls[f"{CACHES[1]} {length}"] = _repeated(model.step, ids[:, -1], state)
        measured = experiment.seconds(calls, self.rounds)
        return {
            cache: [
                [seconds / TIMED for seconds in measured[f"{cache} {length}"]]
                for length in self.lengths
            ]
            for cache in CACHES
        }

    def _run(self, experiment: Experiment, seed: int) -> dict[str, Any]:
        """Train both models and count the calls of every strategy."""
        sentences = corpus(seed + 1, self.train_sentences, max(40, self.prompts), 0)
        tokenizer_spec = TokenizerSpec.model_validate({"vocabulary": self.vocabulary})
        tokenizer = tokenizer_spec.train(pair.english for pair in sentences.train)
        rows = [_row(tokenizer, pair.english) for pair in sentences.train]
        large, small = (
            self._train(experiment, self._spec(*size), len(tokenizer), rows, tokenizer.pad, seed)
            for size in ((self.dim, self.layers), (self.draft_dim, self.draft_layers))
        )
        prompts = [
            [tokenizer.start, *tokenizer.encode(" ".join(pair.english.split()[:PROMPT_WORDS]))]
            for pair in sentences.dev[: self.prompts]
        ]
        strategies = Strategies(large, small, tokenizer.end)
        autoregressive = [strategies.autoregressive(prompt) for prompt in prompts]
        speculative = {
            length: [strategies.speculative(prompt, length) for prompt in prompts]
            for length in self.draft_lengths
        }
        parallel_calls = [
            strategies.parallel(prompt, decoded)
            for prompt, decoded in zip(prompts, autoregressive, strict=True)
        ]
        tokens = sum(len(decoded.tokens) for decoded in autoregressive)
        calls: dict[str, Any] = {
            AUTOREGRESSIVE: lambda: [strategies.autoregressive(prompt) for prompt in prompts]
        }
        for length in self.draft_lengths:
            calls[str(length)] = partial(_decode_all, strategies, prompts, length)
        seconds = experiment.seconds(calls, self.rounds)
        return {
            "parameters": [parameter_count(large), parameter_count(small)],
            "tokens": tokens,
            "calls": sum(decoded.calls for decoded in autoregressive),
            "parallel_calls": sum(parallel_calls),
            "speculative": {
                str(length): {
                    "calls": sum(decoded.calls for decoded in decodings),
                    "drafted": sum(decoded.drafted for decoded in decodings),
                    "same": [
                        a.tokens == b.tokens for a, b in zip(autoregressive, decodings, strict=True)
                    ],
                }
                for length, decodings in speculative.items()
            },
            "logit_difference": max(_one_call_or_many(large, row) for row in rows[: self.prompts]),
            "seconds": seconds,
            "example": tokenizer.decode([*prompts[0], *autoregressive[0].tokens]),
        }

    def _train(
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
            indices = np.random.default_rng([seed, step]).integers(len(rows), size=ROWS)
            ids, token_mask = (
                tensor.to(experiment.device) for tensor in pad([rows[i] for i in indices], pad_id)
            )
            labels = ids[:, 1:].masked_fill(~token_mask[:, 1:], IGNORE_INDEX)
            logits = model(ids[:, :-1])
            return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

        experiment.fit(model, loss, self.steps)
        return model

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        runs, times = evidence["runs"], evidence["times"]
        calls = {
            name: interval([run[name] / run["tokens"] for run in runs])
            for name in ("calls", "parallel_calls")
        }
        exponents = {
            cache: interval(
                [exponent(self.lengths, column).mean for column in zip(*times[cache], strict=True)]
            )
            for cache in CACHES
        }
        selected = self._selected(runs)
        same = [[all(by_length) for by_length in zip(*_same(run), strict=True)] for run in runs]
        return {
            "prefill": interval([run["logit_difference"] for run in runs]),
            "autoregressive": calls["calls"],
            "parallel": calls["parallel_calls"],
            "uncached": exponents[CACHES[0]],
            "cached": exponents[CACHES[1]],
            "same": proportion([float(np.mean(row)) for row in same], sum(map(len, same))),
            "fewer": interval(list(map(_calls_per_token, runs, selected))),
            "wins": ratio(list(map(_relative_time, runs, selected)), [1.0] * len(runs)),
        }

    def _selected(self, runs: Sequence[Any]) -> list[str]:
        """Return for each seed the draft length that is fastest with the other seeds."""
        lengths = map(str, self.draft_lengths)
        return select_by_others(
            {length: [_relative_time(run, length) for run in runs] for length in lengths}
        )

    def show(self, evidence: Evidence) -> list[Figure]:
        runs, times = evidence["runs"], evidence["times"]
        by_length = {
            cache: {
                float(length): interval([1000 * second for second in rounds])
                for length, rounds in zip(self.lengths, times[cache], strict=True)
            }
            for cache in CACHES
        }
        lengths = [
            [f"{length:,}", *(f"{1000 * median(times[cache][at]):.2f} ms" for cache in CACHES)]
            for at, length in enumerate(self.lengths)
        ]
        counted = [
            [strategy, str(interval([run[name] / run["tokens"] for run in runs])), "", ""]
            for strategy, name in {AUTOREGRESSIVE: "calls", "parallel": "parallel_calls"}.items()
        ]
        for length in map(str, self.draft_lengths):
            columns = (
                [measure(run, length) for run in runs]
                for measure in (_calls_per_token, _accepted, _relative_time)
            )
            counted.append(
                [f"speculative, draft length {length}", *(str(interval(c)) for c in columns)]
            )
        large, small = runs[0]["parameters"]
        return [
            Table(
                f"Calls of the model ({large:,} parameters; draft model: {small:,})",
                ["strategy", "calls per token", "accepted", "time over autoregressive"],
                counted,
            ),
            Table("Time of one more token (medians)", ["prefix tokens", *CACHES], lengths),
            Plot(
                "Time of one more token",
                "prefix tokens",
                "milliseconds",
                by_length,
                log_x=True,
                log_y=True,
            ),
        ]


def _decode_all(strategies: Strategies, prompts: Sequence[list[int]], draft_length: int) -> None:
    for prompt in prompts:
        strategies.speculative(prompt, draft_length)


def _calls_per_token(run: Any, draft_length: str) -> float:
    return float(run["speculative"][draft_length]["calls"] / run["tokens"])


def _accepted(run: Any, draft_length: str) -> float:
    """Return the share of accepted draft tokens: each saves a call."""
    decoded = run["speculative"][draft_length]
    return float((run["tokens"] - decoded["calls"]) / max(1, decoded["drafted"]))


def _relative_time(run: Any, draft_length: str) -> float:
    seconds = run["seconds"]
    return float(median(seconds[draft_length]) / median(seconds[AUTOREGRESSIVE]))


def _same(run: Any) -> list[list[bool]]:
    """Return by draft length whether the output for each prompt is the autoregressive one."""
    return [decoded["same"] for decoded in run["speculative"].values()]


def _row(tokenizer: Tokenizer, sentence: str) -> list[int]:
    return [tokenizer.start, *tokenizer.encode(sentence), tokenizer.end]


@torch.inference_mode()
def _one_call_or_many(model: Any, row: list[int]) -> float:
    """Return the largest difference of logits between one call and token by token."""
    ids = torch.tensor([row], device=next(model.parameters()).device)
    state, one_by_one = model.start(), []
    for token in ids.unbind(1):
        logits, state = model.step(token, state)
        one_by_one.append(logits)
    return float((model(ids) - torch.stack(one_by_one, dim=1)).abs().max())


def _last_logits(model: Any, ids: Tensor) -> Tensor:
    """Return the logits of the next token only: decoding without a cache needs no others."""
    logits: Tensor = model.output(model.states(ids)[:, -1])
    return logits


def _repeated(call: Any, *arguments: Any) -> Any:
    @torch.inference_mode()
    def repeat() -> None:
        for _ in range(TIMED):
            call(*arguments)

    return repeat
