"""Run folders of models with random weights, for speeds that do not depend on the quality."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from regard import run_folder
from regard.config import plain
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import SPECIAL, Tokenizer
from regard.loading import LANGUAGES
from regard.models.base import ModelSpec
from regard.models.weights import weights_of

TEXTS = {"fr": "le chat dort sous l'arbre", "en": "the cat sleeps under the tree"}


def small_tokenizer() -> Tokenizer:
    """Return a tokenizer of a few hundred pieces."""
    return bpe.Spec(vocabulary=300).train(list(TEXTS.values()) * 3, list(TEXTS))


def word_tokenizer(size: int) -> Tokenizer:
    """Return a tokenizer of invented words, w4 w5 …, each of which is a token."""
    names = [*SPECIAL, *(f"w{number}" for number in range(len(SPECIAL), size))]
    backend = Backend(WordLevel({name: id_ for id_, name in enumerate(names)}, unk_token="<unk>"))
    backend.pre_tokenizer = WhitespaceSplit()
    backend.add_special_tokens(list(SPECIAL))
    return Tokenizer(backend)


def write_random_run(
    folder: Path,
    task: str,
    model: Mapping[str, Any],
    tokenizer: Tokenizer,
    gain: float = 1.0,
    never_special: bool = False,
    details: Mapping[str, Any] | None = None,
) -> dict[str, torch.Tensor]:
    """Write the run folder of a model with random weights, which are returned.

    Args:
        gain: factor of the matrices: outputs of larger ones vary more.
        never_special: the weights of the special tokens in the embedding and the output layer are
            0, so that their logits are below the largest and they are never generated.
        details: of the run, beside those of the model and the task.
    """
    spec = ModelSpec.model_validate(model)
    torch.manual_seed(0)
    weights = weights_of(spec.build(len(tokenizer)))
    for tensor in weights.values():
        if tensor.dim() == 2:
            tensor *= gain
        if never_special and len(tensor) == len(tokenizer):
            tensor[: len(SPECIAL)] = 0
    details = {"max_length": spec.max_length, **(details or {})}
    extra_files = {}
    if task == "translation":
        details["directions"] = ["fr → en"]
        texts = {name: [tokenizer.encode(text)] for name, text in TEXTS.items()}
        extra_files[LANGUAGES] = LanguageIdentifier.learn(texts).to_json()
    run = run_folder.Run(
        task=task,
        model=plain(spec),
        vocabulary=len(tokenizer),
        details=details,
        weights=weights,
        tokenizer=tokenizer.to_json(),
        extra_files=extra_files,
        documents={},
    )
    run_folder.write(run, folder)
    return weights
