"""Heads that resolve pronouns, found by ablation."""

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.config import plain
from regard.data.batches.base import pad
from regard.data.bundled import Pair
from regard.data.bundled.lexicon import noun
from regard.data.sources.grammar import Spec as Grammar
from regard.errors import ConfigError
from regard.insight.heads.head_masks import masked_heads, without
from regard.insight.heads.head_names import CROSS, DECODER, ENCODER, Head, heads_of
from regard.insight.watch import watch
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, interval
from regard.loading import load_translator
from regard.predictors.seq2seq import Model
from regard.predictors.translator import Translator
from regard.training.recipe import make_recipe
from regard.training.trainer import train

ROWS = 64  # rows in a batch
HELD_OUT = 50  # dev pairs of the training run
LOST = {
    "pronouns lost": "pronouns_lost",
    "other words lost": "others_lost",
    "pronouns lost by chance": "by_chance",
}
LOOKS = ("on the noun", "evenly", "on the adjective")


class Spec(Claim):
    number: ClassVar[int] = 15
    title: ClassVar[str] = "Heads that resolve a pronoun"
    statement: ClassVar[str] = (
        "In *The animal didn't cross the street because it was too tired*, attention lets the "
        "model resolve *it* to *animal*, and to *street* where the street was too wide."
    )
    experiment: ClassVar[str] = (
        "A small Transformer is trained to translate the bundled corpus into French, where *it* "
        "must be *il* or *elle*, depending on the noun that it refers to. Heads are masked in "
        "unseen because-sentences, with combinations of noun and adjective that are not in the "
        "training data. On a quarter of them heads are ablated one after the other, each time the "
        "one that reduces the probability of the correct pronoun most, beyond its effect on the "
        "other words; heads can replace each other, so a single one may not be missed. The other "
        "sentences are the test, compared with as many random heads: how often is the correct "
        "pronoun the most probable token after the correct prefix, and how often is each other "
        "word? The attention of the heads is reported afterwards and is not a criterion."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "learned": Criterion("accuracy on pronouns, full model", at_least=0.9),
        "breaks": Criterion("share of pronouns lost without the selected heads", at_least=0.1),
        "stands out": Criterion(
            "share of pronouns lost, selected heads minus random heads", at_least=0.1
        ),
        "specific": Criterion("share lost, pronouns minus other words", at_least=0.1),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "pairs": 500,
        "sentences": 12,
        "steps": 10,
        "most": 1,
        "draws": 2,
        "seeds": 1,
    }

    pairs: int = Field(60_000, gt=0, description="training pairs")
    sentences: int = Field(
        400, gt=3, le=2000, description="sentences whose pronoun must be resolved"
    )
    steps: int = Field(1000, gt=0, description="training steps")
    most: int = Field(4, gt=0, description="largest number of ablated heads")
    draws: int = Field(8, gt=0, description="draws of as many random heads")
    run: Path | None = Field(
        None, description="run folder of a trained translator into French, such as runs/demo"
    )

    def gather(self, experiment: Experiment) -> Evidence:
        source = Grammar(train_size=self.pairs, dev_size=HELD_OUT, pronouns_size=self.sentences)
        if self.run is not None:
            return {"models": [self._study(load_translator(self.run), source, 0, experiment)]}
        models = []
        with TemporaryDirectory() as folder:  # one for all seeds: the data is prepared once
            for seed in range(self.seeds):
                translator = self._translator(experiment, source, seed, Path(folder))
                models.append(self._study(translator, source, seed, experiment))
        return {"models": models}

    def _study(
        self, translator: Translator, source: Grammar, seed: int, experiment: Experiment
    ) -> dict[str, Any]:
        """Ablate heads by a quarter of the sentences, and evaluate on the others."""
        heads = heads_of(translator.model)
        if len(heads) < 2:
            raise ConfigError(
                f"{self.run}: a model with heads to mask is needed; give another run."
            )
        sentences = [_sentence(translator, pair) for pair in source.corpus().pronouns]
        choosing = _batches(translator, sentences[::4])
        judging = _batches(translator, [each for at, each in enumerate(sentences) if at % 4])
        whole = _told(translator.model, judging)
        gone: list[Head] = []
        steps: list[dict[str, Any]] = []
        chance, most = Random(seed), min(self.most, len(heads) - 1)

        def beyond(head: Head) -> float:
            told = _told(translator.model, choosing, [*gone, head])
            experiment.advance(1)
            return statistics.fmean(told.pronoun_losses) - statistics.fmean(told.other_losses)

        with experiment.plan(sum(len(heads) - each + self.draws for each in range(most)), "masks"):
            for count in range(1, most + 1):
                gone.append(max((head for head in heads if head not in gone), key=beyond))
                found = _told(translator.model, judging, gone)
                drawn = []
                for _ in range(self.draws):
                    drawn.append(_told(translator.model, judging, chance.sample(heads, count)))
                    experiment.advance(1)
                steps.append(
                    {
                        "head": str(gone[-1]),
                        "pronouns_lost": _less(whole.pronouns, found.pronouns),
                        "others_lost": _less(whole.others, found.others),
                        "by_chance": [
                            statistics.fmean(_less(whole.pronouns, each.pronouns)) for each in drawn
                        ],
                        "looks": _looks(translator.model, judging, gone[-1]),
                    }
                )
        return {"heads": len(heads), "right": whole.pronouns, "steps": steps}

    def _translator(
        self, experiment: Experiment, source: Grammar, seed: int, folder: Path
    ) -> Translator:
        grammar = plain(source)
        recipe: dict[str, Any] = {
            "data": {
                "train": grammar,
                "dev": {**grammar, "split": "dev"},
                "directions": ["en-fr"],
                "prepared": folder / "prepared",
            },
            "tokenizer": {"vocabulary": 2056},
            "model": {"kind": "encoder-decoder", "size": "tiny", "max_length": 128},
            "training": {
                "steps": self.steps,
                "batch_tokens": 1024,
                "seed": seed,
                "optimizer": {"kind": "muon", "learning_rate": 0.005},
                "evaluation": {"every": self.steps, "limit": HELD_OUT},
                "checkpoint_every": self.steps,
            },
        }
        made = make_recipe(recipe, (), "the recipe of the lab")
        translator = train(made, folder / f"run-{seed}", experiment.report)
        assert isinstance(translator, Translator)
        return translator

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        models = evidence["models"]

        def apart(model: Mapping[str, Any]) -> list[float]:
            last = model["steps"][-1]
            return [each - statistics.fmean(last["by_chance"]) for each in last["pronouns_lost"]]

        def beyond(model: Mapping[str, Any]) -> list[float]:
            last = model["steps"][-1]
            return _less(last["pronouns_lost"], last["others_lost"])

        return {
            "learned": _over(models, lambda model: model["right"]),
            "breaks": _over(models, lambda model: model["steps"][-1]["pronouns_lost"]),
            "stands out": _over(models, apart),
            "specific": _over(models, beyond),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        models = evidence["models"]
        rows = [
            [
                f"{number}: {'+ ' if at else ''}{step['head']}",
                *(f"{statistics.fmean(step[lost]):.1%}" for lost in LOST.values()),
                *(f"{step['looks'][place]:.2f}" for place in LOOKS),
            ]
            for number, model in enumerate(models, start=1)
            for at, step in enumerate(model["steps"])
        ]
        lines = {
            name: {
                float(count): _over(models, lambda model: model["steps"][count - 1][lost])  # noqa: B023
                for count in range(1, len(models[0]["steps"]) + 1)
            }
            for name, lost in LOST.items()
        }
        title = f"Heads of {models[0]['heads']} masked one after the other, and where each looks"
        return [
            Table(title, ["model: head", *LOST, *LOOKS], rows),
            Plot("Ablation", "ablated heads", "share lost", lines),
        ]


@dataclass(frozen=True)
class _Sentence:
    """A pair as token ids, with the positions of pronoun, noun and adjective."""

    source: list[int]
    target: list[int]
    pronoun: list[int]  # positions in the target, from the start token
    asking: dict[str, int]  # by kind of attention: the query position
    places: dict[
        str, dict[str, list[int]]
    ]  # by kind of attention: key positions of noun, adjective …


def _sentence(translator: Translator, pair: Pair) -> _Sentence:
    assert pair.pronoun is not None
    assert pair.choice is not None
    tokenizer, (named, quality) = translator.tokenizer, pair.choice.split("+")
    meant = noun(named)
    source = translator.source_ids(pair.english, "fr", pair.english)
    tagged = len(source) - len(tokenizer.encode(pair.english)) - 1  # besides the end token
    english, french = (tokenizer.spans(text) for text in (pair.english, pair.french))

    def places(located: Sequence[tuple[int, int, int]], text: str, words: str) -> list[int]:
        found = re.search(rf"\b(?:{words})\b", text, re.IGNORECASE)
        assert found is not None, f"{words} in {text}"
        return [at for at, (_, a, b) in enumerate(located) if a < found.end() and b > found.start()]

    in_english = {
        "noun": places(english, pair.english, f"{meant.english}|{meant.english_plural}"),
        "adjective": places(english, pair.english, quality),
    }
    in_english = {name: [at + tagged for at in found] for name, found in in_english.items()}
    it = places(english, pair.english, "(?<=because )(?:it|they)")[0] + tagged
    pronoun = places(french, pair.french, f"(?<=parce qu')(?:{pair.pronoun})")
    # The start token is at 0: the token at n + 1 is predicted at n.
    said = places(french, pair.french, f"{meant.french}|{meant.french_plural}")
    in_french = {"noun": [at + 1 for at in said], "adjective": []}
    return _Sentence(
        source,
        [tokenizer.start, *translator.target_ids(pair.french, pair.french), tokenizer.end],
        [at + 1 for at in pronoun],
        {ENCODER: it, CROSS: pronoun[0], DECODER: pronoun[0]},
        {ENCODER: in_english, CROSS: in_english, DECODER: in_french},
    )


class _Batch(NamedTuple):
    sentences: Sequence[_Sentence]
    source: Tensor  # (B, S)
    source_mask: Tensor  # (B, S), True = token
    target: Tensor  # (B, T)
    pronoun: Tensor  # (B, T − 1), True where the next token is the pronoun,
    other: Tensor  # or another token


def _batches(translator: Translator, sentences: Sequence[_Sentence]) -> list[_Batch]:
    return [
        _batch(translator, sentences[start : start + ROWS])
        for start in range(0, len(sentences), ROWS)
    ]


def _batch(translator: Translator, rows: Sequence[_Sentence]) -> _Batch:
    pad_id, device = translator.tokenizer.pad, translator.device
    source, source_mask = pad([row.source for row in rows], pad_id)
    target, words = pad([row.target for row in rows], pad_id)
    pronoun = torch.zeros_like(words)
    for at, row in enumerate(rows):
        pronoun[at, row.pronoun] = True
    parts = (source, source_mask, target, pronoun[:, 1:], (words & ~pronoun)[:, 1:])
    return _Batch(rows, *(part.to(device) for part in parts))


class _Told(NamedTuple):
    """For each sentence: pronoun correct, share of other words correct, and −log p."""

    pronouns: list[float]
    others: list[float]
    pronoun_losses: list[float]
    other_losses: list[float]


@torch.inference_mode()
def _told(model: Model, batches: Sequence[_Batch], gone: Sequence[Head] = ()) -> _Told:
    """Evaluate the model on the sentences without some heads."""
    found = []
    with masked_heads(model, without(model, gone)):
        for batch in batches:
            words = batch.target[:, 1:]
            logits = model(batch.source, batch.source_mask, batch.target[:, :-1])
            losses = F.cross_entropy(logits.transpose(1, 2), words, reduction="none")
            right, many = logits.argmax(-1) == words, batch.other.sum(1)
            found.append(
                (
                    (right | ~batch.pronoun).all(1).float(),
                    (right & batch.other).sum(1) / many,
                    (losses * batch.pronoun).sum(1),
                    (losses * batch.other).sum(1) / many,
                )
            )
    return _Told(*(torch.cat(parts).tolist() for parts in zip(*found, strict=True)))


def _less(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(ours, theirs, strict=True)]


@torch.inference_mode()
def _looks(model: Model, batches: Sequence[_Batch], head: Head) -> dict[str, float]:
    """Return the weights of a head on the noun and the adjective where the pronoun is predicted."""
    seen_of: dict[str, list[float]] = {place: [] for place in LOOKS}
    for batch in batches:
        with watch(model, {"weights"}) as seen:
            model(batch.source, batch.source_mask, batch.target[:, :-1])
        for row, sentence in enumerate(batch.sentences):
            asking, places = sentence.asking[head.kind], sentence.places[head.kind]
            weights = seen.weights(head.module)[row, head.number, asking].tolist()
            visible = asking + 1 if head.kind == DECODER else len(sentence.source)
            seen_of["on the noun"].append(sum(weights[at] for at in places["noun"]))
            seen_of["evenly"].append(len(places["noun"]) / visible)
            seen_of["on the adjective"].append(sum(weights[at] for at in places["adjective"]))
    return {place: statistics.fmean(shares) for place, shares in seen_of.items()}


def _over(
    models: Sequence[Mapping[str, Any]], figure: Callable[[Mapping[str, Any]], list[float]]
) -> Interval:
    """Return the interval over models; for one model, over its sentences."""
    found = [figure(model) for model in models]
    return interval(found[0] if len(found) == 1 else [statistics.fmean(each) for each in found])
