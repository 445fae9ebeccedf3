"""Heads that resolve pronouns, found by ablation."""

import re
import statistics
from collections.abc import Mapping, Sequence
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
from regard.lab.intervals import (
    Interval,
    difference,
    interval,
    proportion,
    proportion_difference,
    wider,
)
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
    "pronouns lost, random heads": "random_lost",
}
ATTENDED = ("on the noun", "uniform", "on the adjective")


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
        "max_heads": 1,
        "draws": 2,
        "seeds": 1,
    }

    renamed_keys: ClassVar[Mapping[str, str]] = {"most": "max_heads"}

    pairs: int = Field(60_000, gt=0, description="training pairs")
    sentences: int = Field(
        400, gt=3, le=2000, description="sentences whose pronoun must be resolved"
    )
    steps: int = Field(1000, gt=0, description="training steps")
    max_heads: int = Field(4, gt=0, description="largest number of ablated heads")
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
        selection = _batches(translator, sentences[::4])
        test = _batches(translator, [sentence for at, sentence in enumerate(sentences) if at % 4])
        full = _evaluate(translator.model, test)
        ablated: list[Head] = []
        steps: list[dict[str, Any]] = []
        rng, max_ablated = Random(seed), min(self.max_heads, len(heads) - 1)

        def excess_loss(head: Head) -> float:
            score = _evaluate(translator.model, selection, [*ablated, head])
            experiment.advance(1)
            return statistics.fmean(score.pronoun_losses) - statistics.fmean(score.other_losses)

        with experiment.plan(
            sum(len(heads) - step + self.draws for step in range(max_ablated)), "masks"
        ):
            for count in range(1, max_ablated + 1):
                ablated.append(
                    max((head for head in heads if head not in ablated), key=excess_loss)
                )
                without_selected = _evaluate(translator.model, test, ablated)
                controls = []
                for _ in range(self.draws):
                    controls.append(_evaluate(translator.model, test, rng.sample(heads, count)))
                    experiment.advance(1)
                steps.append(
                    {
                        "head": str(ablated[-1]),
                        "pronouns_lost": _differences(full.pronouns, without_selected.pronouns),
                        "others_lost": _differences(full.others, without_selected.others),
                        "random_lost": [
                            statistics.fmean(_differences(full.pronouns, control.pronouns))
                            for control in controls
                        ],
                        "attention": _attention_on(translator.model, test, ablated[-1]),
                    }
                )
        return {"heads": len(heads), "accuracy": full.pronouns, "steps": steps}

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
        validated = make_recipe(recipe, (), "the recipe of the lab")
        translator = train(validated, folder / f"run-{seed}", experiment.report)
        assert isinstance(translator, Translator)
        return translator

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        models = evidence["models"]
        tested = len(models[0]["accuracy"])  # the same sentences for all models

        def lost(name: str) -> list[float]:
            return [statistics.fmean(model["steps"][-1][name]) for model in models]

        full = [statistics.fmean(model["accuracy"]) for model in models]
        ablated, random = (_differences(full, lost(f"{n}_lost")) for n in ("pronouns", "random"))
        breaks = proportion_difference(full, ablated, tested)
        others = statistics.fmean(lost("others_lost"))
        return {
            "learned": proportion(full, tested),
            "breaks": breaks,
            "stands out": proportion_difference(random, ablated, tested),
            "specific": wider(
                difference(lost("pronouns_lost"), lost("others_lost")),
                Interval(breaks.mean - others, breaks.low - others, breaks.high - others),
            ),
        }

    def repetitions(self, evidence: Evidence) -> int:
        return min(self.seeds, len(evidence["models"]))

    def show(self, evidence: Evidence) -> list[Figure]:
        models = evidence["models"]
        rows = [
            [
                f"{number}: {'+ ' if at else ''}{step['head']}",
                *(f"{statistics.fmean(step[lost]):.1%}" for lost in LOST.values()),
                *(f"{step['attention'][target]:.2f}" for target in ATTENDED),
            ]
            for number, model in enumerate(models, start=1)
            for at, step in enumerate(model["steps"])
        ]
        lines = {
            name: {
                float(count): interval(
                    [statistics.fmean(model["steps"][count - 1][lost]) for model in models]
                )
                for count in range(1, len(models[0]["steps"]) + 1)
            }
            for name, lost in LOST.items()
        }
        title = f"Heads ablated in turn, of {models[0]['heads']}, and the attention weights of each"
        return [
            Table(title, ["model: head", *LOST, *ATTENDED], rows),
            Plot("Ablation", "ablated heads", "share lost", lines),
        ]


@dataclass(frozen=True)
class _Sentence:
    """A pair as token ids, with the positions of pronoun, noun and adjective."""

    source: list[int]
    target: list[int]
    pronoun: list[int]  # positions in the target, from the start token
    # By kind of attention: the query position, and the key positions of noun and adjective.
    query_positions: dict[str, int]
    key_positions: dict[str, dict[str, list[int]]]


def _sentence(translator: Translator, pair: Pair) -> _Sentence:
    assert pair.pronoun is not None
    assert pair.choice is not None
    tokenizer, (noun_name, adjective) = translator.tokenizer, pair.choice.split("+")
    referent = noun(noun_name)
    source = translator.source_ids(pair.english, "fr", pair.english)
    prefix_length = len(source) - len(tokenizer.encode(pair.english)) - 1  # besides the end token
    english, french = (tokenizer.spans(text) for text in (pair.english, pair.french))

    def token_positions(
        spans: Sequence[tuple[int, int, int]], text: str, pattern: str
    ) -> list[int]:
        match = re.search(rf"\b(?:{pattern})\b", text, re.IGNORECASE)
        assert match is not None, f"{pattern} in {text}"
        return [at for at, (_, a, b) in enumerate(spans) if a < match.end() and b > match.start()]

    in_english = {
        "noun": token_positions(
            english, pair.english, f"{referent.english}|{referent.english_plural}"
        ),
        "adjective": token_positions(english, pair.english, adjective),
    }
    in_english = {
        name: [at + prefix_length for at in positions] for name, positions in in_english.items()
    }
    it = token_positions(english, pair.english, "(?<=because )(?:it|they)")[0] + prefix_length
    pronoun = token_positions(french, pair.french, f"(?<=parce qu')(?:{pair.pronoun})")
    # The start token is at 0: the token at n + 1 is predicted at n.
    noun_positions = token_positions(
        french, pair.french, f"{referent.french}|{referent.french_plural}"
    )
    in_french = {"noun": [at + 1 for at in noun_positions], "adjective": []}
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
    target, is_token = pad([row.target for row in rows], pad_id)
    pronoun = torch.zeros_like(is_token)
    for at, row in enumerate(rows):
        pronoun[at, row.pronoun] = True
    parts = (source, source_mask, target, pronoun[:, 1:], (is_token & ~pronoun)[:, 1:])
    return _Batch(rows, *(part.to(device) for part in parts))


class _Scores(NamedTuple):
    """For each sentence: pronoun correct, share of other words correct, and −log p."""

    pronouns: list[float]
    others: list[float]
    pronoun_losses: list[float]
    other_losses: list[float]


@torch.inference_mode()
def _evaluate(model: Model, batches: Sequence[_Batch], ablated: Sequence[Head] = ()) -> _Scores:
    """Evaluate the model on the sentences without some heads."""
    results = []
    with masked_heads(model, without(model, ablated)):
        for batch in batches:
            labels = batch.target[:, 1:]
            logits = model(batch.source, batch.source_mask, batch.target[:, :-1])
            losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
            correct, count = logits.argmax(-1) == labels, batch.other.sum(1)
            results.append(
                (
                    (correct | ~batch.pronoun).all(1).float(),
                    (correct & batch.other).sum(1) / count,
                    (losses * batch.pronoun).sum(1),
                    (losses * batch.other).sum(1) / count,
                )
            )
    return _Scores(*(torch.cat(column).tolist() for column in zip(*results, strict=True)))


def _differences(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(first, second, strict=True)]


@torch.inference_mode()
def _attention_on(model: Model, batches: Sequence[_Batch], head: Head) -> dict[str, float]:
    """Return the weights of a head on the noun and the adjective where the pronoun is predicted."""
    weights_on: dict[str, list[float]] = {target: [] for target in ATTENDED}
    for batch in batches:
        with watch(model, {"weights"}) as seen:
            model(batch.source, batch.source_mask, batch.target[:, :-1])
        for row, sentence in enumerate(batch.sentences):
            query, key_positions = (
                sentence.query_positions[head.kind],
                sentence.key_positions[head.kind],
            )
            weights = seen.weights(head.module)[row, head.number, query].tolist()
            keys = query + 1 if head.kind == DECODER else len(sentence.source)
            weights_on["on the noun"].append(sum(weights[at] for at in key_positions["noun"]))
            weights_on["uniform"].append(len(key_positions["noun"]) / keys)
            weights_on["on the adjective"].append(
                sum(weights[at] for at in key_positions["adjective"])
            )
    return {target: statistics.fmean(shares) for target, shares in weights_on.items()}
