"""From a Hugging Face folder, or llama2.c's, to a run folder: spec, weights, tokeniser."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard import run_folder
from regard.config import plain, validate
from regard.data.config import Direction
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.errors import DataError
from regard.interchange.families.base import Family, family_of
from regard.interchange.folder import ModelFolder
from regard.interchange.llama2c import BETWEEN, Checkpoint, is_checkpoint
from regard.interchange.sentences import reading_of
from regard.interchange.tokenizers import tokenizer_of
from regard.models.base import ModelSpec
from regard.models.weights import set_weights, weights_of
from regard.run_folder import Run

ENDS = ("</s>", "[SEP]", "<eos>", "<|endoftext|>", "<|end_of_text|>")


def import_model(source: Path, run: Path, languages: Direction | None = None) -> None:
    """A run folder with the model of a Hugging Face folder, or of llama2.c, in it."""
    folder = Checkpoint(source) if is_checkpoint(source) else ModelFolder(source)
    theirs = folder.weights()
    family = family_of(folder.config).given(theirs)
    spec = validate(ModelSpec, family.spec(folder.config), str(source / "config.json"))
    tokenizer = tokenizer_of(folder) if isinstance(folder, ModelFolder) else folder.tokenizer()
    weights, left = _ours(family, folder, theirs)
    vocabulary = _vocabulary(weights)
    model = spec.build(vocabulary)
    set_weights(model, weights, str(source))
    details: dict[str, Any] = {"max_length": spec.max_length, "imported": _origin(folder, left)}
    if tokenizer.end >= vocabulary:
        raise DataError(
            f"{source}: its tokeniser has no piece for the end of a text ({', '.join(ENDS)}), so "
            f"the model would never end."
        )
    if tokenizer.pad >= vocabulary:
        details["pad"] = tokenizer.end  # this model never had any; what is masked may be anything
    parts: dict[str, str] = {}
    if family.begins_with_start:
        details["bos"] = [folder.config.get("bos_token_id", tokenizer.start)]
    if isinstance(folder, Checkpoint):
        details["end"] = BETWEEN
    elif family.task == "encoder":
        details |= reading_of(folder, spec.max_length)
    elif family.task == "translation":
        details["start"] = folder.config.get("decoder_start_token_id", tokenizer.start)
        details["suppressed_tokens"] = _never(folder)
        way = languages or _direction(folder)
        details["directions"] = [f"{way.source} → {way.target}"]
        parts["languages.json"] = LanguageIdentifier({way.source: {}, way.target: {}}).to_json()
    run_folder.write(
        Run(
            task=family.task,
            model=plain(spec),
            vocabulary=vocabulary,
            details=details,
            weights=weights_of(model),
            tokenizer=tokenizer.to_json(),
            extra_files=parts,
            documents={"README.md": _card(folder, family, left)},
        ),
        run,
    )


def _ours(
    family: Family, folder: ModelFolder | Checkpoint, theirs: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], list[str]]:
    """The weights by our names, and the names of theirs that have no place in our model."""
    names = family.names(folder.config)
    prefix = _prefix(family, theirs, next(iter(names.values())).name)
    used: set[str] = set()
    ours: dict[str, Tensor] = {}
    for name, take in names.items():
        for wanted in (take.name, take.plus):
            if wanted and prefix + wanted not in theirs and wanted not in theirs:
                raise DataError(
                    f"{folder.path}: the weights have no {wanted}; is it a whole model?"
                )
        parts = [_get(theirs, prefix, each, used) for each in (take.name, take.plus) if each]
        ours[name] = take.join(*parts) if take.plus else take.change(parts[0])
    left = sorted(set(theirs) - used)
    unknown = [
        each
        for each in left
        if not any(re.fullmatch(rf"({re.escape(prefix)})?{out}", each) for out in family.left_out)
    ]
    if unknown:
        raise DataError(
            f"{folder.path}: the weights have {unknown[0]}, which Regard has no place for "
            f"({len(unknown)} such names); this is another kind of model than it says."
        )
    return ours, left


def _prefix(family: Family, theirs: Mapping[str, Tensor], name: str) -> str:
    return next((each for each in family.prefixes if each + name in theirs), "")


def _get(theirs: Mapping[str, Tensor], prefix: str, name: str, used: set[str]) -> Tensor:
    full = prefix + name if prefix + name in theirs else name
    used.add(full)
    return theirs[full]


def _vocabulary(weights: Mapping[str, Tensor]) -> int:
    return next(len(t) for name, t in weights.items() if name.endswith("embedding.tokens.weight"))


def _never(folder: ModelFolder) -> list[int]:
    """Pieces that the model must be kept from saying, as Marian from its padding."""
    name = "generation_config.json"
    settings = folder.read_json(name) if folder.has(name) else {}
    words = settings.get("bad_words_ids") or folder.config.get("bad_words_ids") or []
    return [ids[0] for ids in words if len(ids) == 1]


def _direction(folder: ModelFolder) -> Direction:
    known = folder.read_json("tokenizer_config.json") if folder.has("tokenizer_config.json") else {}
    source, target = known.get("source_lang"), known.get("target_lang")
    if not source or not target:
        raise DataError(
            f"{folder.path}: does not say which languages it translates; say so: --languages fr-en."
        )
    return Direction(source, target)


def _origin(folder: ModelFolder | Checkpoint, left: list[str]) -> dict[str, Any]:
    return {"from": folder.path.name, "type": folder.config.get("model_type"), "left_out": left}


def _card(folder: ModelFolder | Checkpoint, family: Family, left: list[str]) -> str:
    out = f"\n\nLeft out, having no place in it: {', '.join(left)}." if left else ""
    where = "a Hugging Face folder" if isinstance(folder, ModelFolder) else "llama2.c"
    return (
        f"# {folder.path.name}\n\nImported from {where}, a model of type "
        f"{folder.config.get('model_type')}, for {family.task}. Its licence is its authors'.{out}\n"
    )
