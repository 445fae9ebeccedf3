"""Exact outputs of a trained run: texts as they are, numbers as hexadecimal floats.

All calls of predictors are in this file. The compiled engine is not used for a model that has
forward hooks, so a hook that does nothing selects torch.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import regard
from reference.settings import BEAMS, DRAFTS, SAMPLINGS
from regard.decoding.config import DecodingConfig
from regard.decoding.sampling import Sampling

ENGLISH = (
    "The animal didn't cross the street because it was too tired.",
    "We looked for an old book yesterday.",
    "Where do the hungry wolves sleep?",
    "My uncle sees me.",
)
FRENCH = (
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "Nous avons cherché un vieux livre hier.",
    "Où dorment les loups affamés ?",
    "Je te vois.",
)
PROMPTS = ("The animal didn't", "We", "Where do the hungry wolves sleep?\nThe", "My uncle and")
BLANKS = ("The animal didn't cross the [MASK].", "We ___ for an old book ___.")
DOCUMENT = " ".join(ENGLISH)
NEW_TOKENS = 16

Outputs = dict[str, Any]


def outputs(name: str, folder: Path, others: Path) -> Outputs:
    """Return the outputs of the run in `folder`; `others` is the folder of all runs."""
    predictor = regard.load(folder)
    for method, outputs_of in (
        ("translate", _translations),
        ("summarize", _summaries),
        ("generate", _texts),
        ("classify", _probabilities),
        ("fill", _fillings),
        ("embed", _vectors),
    ):
        if hasattr(predictor, method):
            if method not in ("translate", "summarize", "generate"):
                return outputs_of(predictor)
            computed = _engine_and_torch(folder, outputs_of)
            if name in DRAFTS:
                computed |= _speculations(predictor, regard.load(others / DRAFTS[name]))
            return computed
    raise ValueError(f"{name}: no outputs are known for a {type(predictor).__name__}")


def hexadecimal(value: float) -> str:
    return value.hex() if math.isfinite(value) else str(value)


def hash_of(tensor: torch.Tensor) -> str:
    """Hash a tensor's type, shape and bytes."""
    content = tensor.detach().cpu().contiguous()
    head = f"{content.dtype} {tuple(content.shape)} ".encode()
    data = content.flatten().view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(head + data).hexdigest()


def _engine_and_torch(folder: Path, outputs_of: Callable[[Any], Outputs]) -> Outputs:
    hooked = regard.load(folder)
    hooked.model.register_forward_hook(lambda *_: None)
    computed = {"engine": outputs_of(regard.load(folder)), "torch": outputs_of(hooked)}
    try:
        computed["int8"] = outputs_of(regard.load(folder, bits=8))
    except regard.RegardError:
        computed["int8"] = {"refused": True}
    return computed


def _translations(translator: Any) -> Outputs:
    lines = list(ENGLISH)
    computed: Outputs = {
        "greedy": translator.translate(lines, to="fr", max_tokens=NEW_TOKENS),
        "stream": "".join(translator.stream(lines[0], to="fr")),
        "prefix": translator.translate(lines[:2], to="fr", beam=3, prefix="Le", max_tokens=9),
        "scores": _scores(translator.score(lines, list(FRENCH), to="fr")),
    }
    for name, settings in BEAMS.items():
        search = DecodingConfig(**settings)
        candidates = translator.candidates(lines, to="fr", decoding=search, max_tokens=NEW_TOKENS)
        computed[name] = [_scored(ranked) for ranked in candidates]
    for name, settings in SAMPLINGS.items():
        search = DecodingConfig(sampling=Sampling(**settings))
        computed[name] = translator.translate(
            lines, to="fr", decoding=search, max_tokens=NEW_TOKENS
        )
    constrained = translator.candidates(
        lines[:2], to="fr", require_phrases=["vieux"], max_tokens=NEW_TOKENS
    )
    computed["forced phrase"] = [_scored(ranked) for ranked in constrained]
    return computed


def _summaries(summarizer: Any) -> Outputs:
    texts = [DOCUMENT, " ".join(reversed(ENGLISH))]
    computed: Outputs = {
        "greedy": summarizer.summarize(texts),
        "scores": _scores(summarizer.score(texts, [ENGLISH[0], ENGLISH[-1]])),
    }
    for name, settings in BEAMS.items():
        candidates = summarizer.candidates(texts, decoding=DecodingConfig(**settings))
        computed[name] = [_scored(ranked) for ranked in candidates]
    return computed


def _texts(generator: Any) -> Outputs:
    prompts = list(PROMPTS)
    perplexity = generator.perplexity("\n".join(ENGLISH))
    computed: Outputs = {
        "greedy": generator.candidates(prompts, NEW_TOKENS),
        "stream": "".join(generator.stream(prompts[0], NEW_TOKENS)),
        "sliding window": generator.generate(prompts[0], 80, sliding_window=True),
        "scores": _scores(generator.score(list(ENGLISH))),
        "perplexity": [hexadecimal(perplexity.loss), hexadecimal(perplexity.bits_per_byte)],
    }
    for name, settings in BEAMS.items():
        computed[name] = generator.candidates(prompts, NEW_TOKENS, DecodingConfig(**settings))
    for name, settings in SAMPLINGS.items():
        search = DecodingConfig(sampling=Sampling(**settings))
        computed[name] = generator.candidates(prompts, NEW_TOKENS, search)
    return computed


def _speculations(generator: Any, draft: Any) -> Outputs:
    computed = {}
    for name, drafter in (("draft model", draft), ("prompt lookup", None)):
        computed[name] = ["".join(generator.speculate(p, NEW_TOKENS, drafter)) for p in PROMPTS]
        for sampled, settings in SAMPLINGS.items():
            computed[f"{name}, {sampled}"] = [
                "".join(generator.speculate(p, NEW_TOKENS, drafter, Sampling(**settings)))
                for p in PROMPTS
            ]
    return {"speculative": computed}


def _probabilities(classifier: Any) -> Outputs:
    if getattr(classifier, "tree_source", None) is not None:
        return {}  # texts would need trees; the dev scores cover the forward pass
    texts: Sequence[Any] = ENGLISH
    if classifier.num_texts == 2:
        texts = list(zip(FRENCH, ENGLISH, strict=True))
    return {
        "probabilities": [
            {label: hexadecimal(p) for label, p in prediction.probabilities.items()}
            for prediction in classifier.classify(texts)
        ]
    }


def _fillings(filler: Any) -> Outputs:
    computed: Outputs = {
        "fillings": [
            [[[f.text, hexadecimal(f.probability)] for f in blank] for blank in filler.fill(text)]
            for text in BLANKS
        ]
    }
    if hasattr(filler, "score"):
        computed["scores"] = _scores(filler.score(list(ENGLISH)))
    return computed


def _vectors(embedder: Any) -> Outputs:
    vectors = embedder.embed(list(ENGLISH))
    return {
        "vectors": hash_of(vectors),
        "similarity": hexadecimal(embedder.similarity(ENGLISH[0], ENGLISH[1])),
    }


def _scored(candidates: Sequence[Any]) -> list[list[str]]:
    return [[text.text, hexadecimal(text.score)] for text in candidates]


def _scores(scores: Sequence[Any]) -> list[str]:
    return [hexadecimal(score.total) for score in scores]
