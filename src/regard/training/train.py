"""From a recipe to a run folder: read, tokenise, build, fit, save."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

from regard import runs
from regard.config import plain, write_yaml
from regard.data.batching import Example, batches
from regard.data.languages import LanguageGuess
from regard.data.sources import ParallelText
from regard.data.tokenizer import Tokenizer
from regard.data.vectors import VectorsSpec, read_vectors
from regard.decoding.translator import Translator
from regard.errors import ConfigError
from regard.evaluation.translation import TranslationScore, score_translations
from regard.models import vectors
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.kind import parameter_count
from regard.models.transformer import TransformerSpec
from regard.models.weights import weights_of
from regard.training.card import card
from regard.training.loop import Progress, best_device, fit
from regard.training.objectives import translation
from regard.training.progress import Reporter, silent
from regard.training.recipe import Recipe


def train(recipe: Recipe, folder: Path | str, report: Reporter = silent) -> Translator:
    """Train what the recipe says, score it on the held-out pairs, and write the run folder."""
    folder = Path(folder)
    runs.claim(folder)
    torch.manual_seed(recipe.training.seed)
    text = recipe.data.read()
    report.say(f"{text.about}; {len(text.held_out):,} held out.")
    tokenizer = Tokenizer.train(
        (side for pair in text.train for side in pair), recipe.tokenizer.vocabulary, text.languages
    )
    model = _build(recipe, tokenizer, report)
    sides = [tokenizer.encode_all(side) for side in zip(*text.train, strict=True)]
    history = _fit(model, recipe, _examples(sides, text.languages, tokenizer), tokenizer, report)
    guess = LanguageGuess.learn(dict(zip(text.languages, sides, strict=True)))
    assert isinstance(recipe.model, TransformerSpec)
    translator = Translator(model, tokenizer, guess, recipe.model.max_length)
    scores = evaluate(translator, text.languages, text.held_out, report)
    runs.write(_run(recipe, translator, text, history, scores), folder)
    return translator


def evaluate(
    translator: Translator,
    languages: tuple[str, str],
    pairs: Sequence[tuple[str, str]],
    report: Reporter,
) -> dict[str, TranslationScore]:
    """Scores each way, by direction: {"fr → en": …, "en → fr": …}."""
    scores = {}
    for source, target in ((0, 1), (1, 0)):
        direction = f"{languages[source]} → {languages[target]}"
        with report.bar(f"Scoring {direction}", len(pairs), "pairs") as advance:
            outputs = translator.translate(
                [pair[source] for pair in pairs], languages[target], advance
            )
        scores[direction] = score_translations(outputs, [pair[target] for pair in pairs])
    return scores


def _build(recipe: Recipe, tokenizer: Tokenizer, report: Reporter) -> EncoderDecoder:
    model = recipe.model.build(len(tokenizer))
    if not isinstance(model, EncoderDecoder):
        raise ConfigError(
            f"model: a {recipe.model.kind()} cannot be trained to translate; "
            f"use kind: encoder-decoder."
        )
    if recipe.vectors is not None:
        _seed(model, recipe.vectors, tokenizer, report)
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


def _examples(
    sides: Sequence[list[list[int]]], languages: Sequence[str], tokenizer: Tokenizer
) -> list[Example]:
    """Every pair both ways, each source with the tag of the language to produce."""
    tags = [tokenizer.language(language) for language in languages]
    return [
        Example(
            source=[tags[1 - here], *ids, tokenizer.end],
            target=[tokenizer.start, *sides[1 - here][row], tokenizer.end],
        )
        for here in (0, 1)
        for row, ids in enumerate(sides[here])
    ]


def _fit(
    model: nn.Module,
    recipe: Recipe,
    examples: list[Example],
    tokenizer: Tokenizer,
    report: Reporter,
) -> list[Progress]:
    spec = recipe.training
    data = batches(examples, spec.batch_tokens, spec.seed, tokenizer.pad)
    history = []
    with report.training(spec.steps) as show:
        steps = fit(model, lambda m, batch: translation(m, batch, spec.label_smoothing), data, spec)
        for progress in steps:
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
