"""A text that is given is read at once; one that is being said needs a call for each word."""

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

ROWS = 64  # sentences in a step of training
OPENING = 2  # words of a sentence that are given; the rest is said
TIMED = 3  # calls that are timed as one
HEADS = 4
WAYS = ("without a cache", "with a cache")


class Spec(Claim):
    number: ClassVar[int] = 14
    title: ClassVar[str] = "Decoding cannot be parallel"
    statement: ClassVar[str] = (
        "Training reads all words of a text at once, but each word that is said needs the one "
        "before it; a cache spares reading the beginning again, and speculative decoding wins "
        "back some of what is lost."
    )
    experiment: ClassVar[str] = (
        "A language model and a smaller one learn the English sentences of the bundled corpus, and "
        "go on from the first two words of sentences held out, greedily. Calls of the model are "
        "counted for each word said: one by one; with all places guessed at once and guessed again "
        "until they are right; and with the smaller model guessing a few words ahead: how many is "
        "chosen by the time it takes with the first seed, and judged on the others. A text that "
        "is given is read in one call and word by word, and the logits compared. The time of one "
        "more word is measured for growing texts, with and without a cache, in plain torch, and a "
        "power of the length fitted in each round."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "given": Criterion(
            "a given text in one call or word by word: largest difference of logits", at_most=1e-3
        ),
        "one_by_one": Criterion("calls for each word that is said", at_least=1.0, at_most=1.0),
        "at_once": Criterion(
            "the same, all places guessed at once and again until they are right", at_least=0.5
        ),
        "uncached": Criterion("time of a word without a cache ~ length to the power", at_least=0.8),
        "cached": Criterion("time of a word with a cache ~ length to the power", at_most=0.5),
        "same": Criterion("sentences the same, said with a draft's guesses", at_least=1.0),
        "fewer": Criterion("calls of the large model for each word, with guesses", at_most=0.7),
        "wins": Criterion("time with guesses, over without", at_most=1.0),
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
        (128, 256, 512, 1024, 2048), description="words before the one whose time is taken"
    )
    rounds: int = Field(7, gt=0, description="of timing, in turns")
    trained: int = Field(12_000, gt=0, description="sentences to learn")
    openings: int = Field(24, gt=0, description="sentences to go on with")
    steps: int = Field(400, gt=0, description="of training, for each model")
    vocabulary: int = Field(1500, ge=300, description="pieces of the tokeniser")
    dim: int = Field(128, gt=0, multiple_of=HEADS * 2, description="D of the model")
    layers: int = Field(6, gt=0, description="of the model")
    draft_dim: int = Field(64, gt=0, multiple_of=HEADS * 2, description="D of the smaller model")
    draft_layers: int = Field(1, gt=0, description="of the smaller model")
    ahead: tuple[int, ...] = Field(
        (1, 2, 4), min_length=1, description="words that are guessed at a time, each tried"
    )
    seeds: int = Field(3, gt=1, description="how often everything drawn is drawn anew")

    @field_validator("lengths")
    @classmethod
    def _several(cls, given: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(given)) < 2 or min(given) < 2:
            raise ValueError("give two lengths or more, each 2 or more")
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
        """Of a word after so many: for each way, for each length, round by round."""
        torch.manual_seed(0)  # what the weights are costs no time
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
        """What two models learn, and how many calls it takes to say it, this way and that."""
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
        """How many words are guessed at a time, the quickest first, by the first seed."""
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
                f"Calls of the model ({large:,} parameters; the draft has {small:,})",
                ["said", "calls for each word", "guesses that were right", "time, over one by one"],
                counted,
            ),
            Table("Time of one more word (medians)", ["words before it", *WAYS], lengths),
            Plot(
                "The time of one more word",
                "words before it",
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
    """Calls for each word, with so many guessed at a time."""
    return float(said["guessed"][ahead]["calls"] / said["words"])


def _right(said: Any, ahead: str) -> float:
    """The share of guesses that were right: each spares a call."""
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
    """The largest difference between the logits of a text read at once, and word by word."""
    ids = torch.tensor([row], device=next(model.parameters()).device)
    state, one_by_one = model.start(), []
    for word in ids.unbind(1):
        logits, state = model.step(word, state)
        one_by_one.append(logits)
    return float((model(ids) - torch.stack(one_by_one, dim=1)).abs().max())


def _last_logits(model: Any, ids: Tensor) -> Tensor:
    """Those of the next word alone: decoding without a cache has no use for the others."""
    logits: Tensor = model.output(model.states(ids)[:, -1])
    return logits


def _repeated(call: Any, *given: Any) -> Any:
    @torch.inference_mode()
    def several() -> None:
        for _ in range(TIMED):
            call(*given)

    return several
