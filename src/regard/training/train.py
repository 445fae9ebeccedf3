"""From a recipe to a run folder: read, tokenise, build, fit, save."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from torch import nn

from regard import runs
from regard.config import plain, write_yaml
from regard.data import pairs
from regard.data.batching import Batch, batches
from regard.data.languages import LanguageGuess
from regard.data.sources import ParallelText
from regard.data.tokenizer import Tokenizer
from regard.data.vectors import VectorsSpec, read_vectors
from regard.decoding.translator import Translator
from regard.errors import ConfigError
from regard.evaluation.translation import TranslationScore, score_translations
from regard.models import encoder_decoder, vectors
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.kind import parameter_count
from regard.models.weights import weights_of
from regard.training.card import card
from regard.training.loop import Progress, TrainingSpec, best_device, fit
from regard.training.objectives import translation
from regard.training.progress import Reporter, silent
from regard.training.recipe import Recipe


def train(recipe: Recipe, folder: Path | str, report: Reporter = silent) -> Translator:
    """Train what the recipe says, score it on the held-out pairs, and write the run folder."""
    folder = Path(folder)
    if not isinstance(recipe.model, encoder_decoder.Spec):
        raise ConfigError(
            f"model: a {recipe.model.kind()} cannot be trained to translate; "
            f"use kind: encoder-decoder."
        )
    torch.manual_seed(recipe.training.seed)
    with report.busy("Reading and cutting into pieces …"):
        text = recipe.data.read()
        tokenizer = Tokenizer.train(
            (side for pair in text.train for side in pair),
            recipe.tokenizer.vocabulary,
            text.languages,
        )
        sides = pairs.encode(text.train, tokenizer)
        held_out = pairs.encode(text.held_out, tokenizer)
        for name, each in (("training", sides), ("held-out", held_out)):
            pairs.check_lengths(each, recipe.model.max_length, name)
    report.say(f"{text.about}; {len(text.held_out):,} held out.")
    model = _build(recipe.model, recipe.vectors, tokenizer, report)
    spec = recipe.training
    examples = pairs.both_ways(sides, text.languages, tokenizer)
    data = batches(examples, spec.batch_tokens, spec.seed, tokenizer.pad)
    runs.claim(folder)
    history = _fit(model, data, spec, report)
    guess = LanguageGuess.learn(dict(zip(text.languages, sides, strict=True)))
    translator = Translator(model, tokenizer, guess, recipe.model.max_length)
    scores = evaluate(translator, text.languages, text.held_out, report)
    runs.write(_run(recipe, translator, text, history, scores), folder)
    return translator


def evaluate(
    translator: Translator,
    languages: tuple[str, str],
    held_out: Sequence[tuple[str, str]],
    report: Reporter,
) -> dict[str, TranslationScore]:
    """Scores each way, by direction: {"fr → en": …, "en → fr": …}."""
    scores = {}
    for source, target in ((0, 1), (1, 0)):
        direction = f"{languages[source]} → {languages[target]}"
        with report.bar(f"Scoring {direction}", len(held_out), "pairs") as advance:
            outputs = translator.translate(
                [pair[source] for pair in held_out], languages[target], advance, strict=False
            )
        scores[direction] = score_translations(outputs, [pair[target] for pair in held_out])
    return scores


def _build(
    spec: encoder_decoder.Spec,
    pretrained: VectorsSpec | None,
    tokenizer: Tokenizer,
    report: Reporter,
) -> EncoderDecoder:
    model = spec.build(len(tokenizer))
    if pretrained is not None:
        _seed(model, pretrained, tokenizer, report)
    size = parameter_count(model) / 1e6
    report.say(f"Vocabulary of {len(tokenizer):,} pieces; {size:.1f} M parameters.")
    return model.to(best_device())


def _seed(model: EncoderDecoder, spec: VectorsSpec, tokenizer: Tokenizer, report: Reporter) -> None:
    words = [tokenizer.readable(piece) for piece in tokenizer.vocabulary()]
    wanted = {*words, *map(str.lower, words)}
    embeddings = {model.encoder.embedding.tokens: model.encoder.embedding}
    embeddings.setdefault(model.decoder.embedding.tokens, model.decoder.embedding)
    for embedding in embeddings.values():
        found = read_vectors(spec.path, wanted, embedding.tokens.embedding_dim)
        seeded = vectors.seed(embedding, words, found, spec.frozen)
        report.say(
            f"{spec.path.name} seeds {seeded.found:,} of {len(words):,} pieces; "
            f"{seeded.missing:,} are missing from it and start at random."
        )


def _fit(
    model: nn.Module, data: Iterator[Batch], spec: TrainingSpec, report: Reporter
) -> list[Progress]:
    history = []
    objective = partial(translation, smoothing=spec.label_smoothing)
    with report.training(spec.steps) as show:
        for progress in fit(model, objective, data, spec):
            history.append(progress)
            show(progress)
    return history


def _run(
    recipe: Recipe,
    translator: Translator,
    text: ParallelText,
    history: list[Progress],
    scores: dict[str, TranslationScore],
) -> runs.Run:
    details = {
        "languages": list(text.languages),
        "max_length": translator.max_length,
        "parameters": parameter_count(translator.model),
        "tokenizer": translator.tokenizer.fingerprint,
        "scores": {direction: asdict(score) for direction, score in scores.items()},
    }
    return runs.Run(
        job="translation",
        model=plain(recipe.model),
        vocabulary=len(translator.tokenizer),
        details=details,
        weights=weights_of(translator.model),
        tokenizer=translator.tokenizer.to_json(),
        parts={"languages.json": translator.guess.to_json()},
        papers={
            "recipe.yaml": write_yaml(recipe),
            "metrics.jsonl": "".join(json.dumps(asdict(each)) + "\n" for each in history),
            "README.md": card(recipe, text, details, scores),
        },
    )
