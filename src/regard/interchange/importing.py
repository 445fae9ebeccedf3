"""Import a Hugging Face folder, or a llama2.c checkpoint, as a run folder."""

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
from regard.interchange.sentences import embedder_settings
from regard.interchange.tokenizers import tokenizer_of
from regard.models.base import ModelSpec
from regard.models.weights import set_weights, weights_of
from regard.run_folder import Run

END_TOKENS = ("</s>", "[SEP]", "<eos>", "<|endoftext|>", "<|end_of_text|>")


def import_model(source: Path, run: Path, languages: Direction | None = None) -> None:
    """Import a model.

    Args:
        source: a Hugging Face folder, or a folder or file of llama2.c.
        run: the run folder to write.
        languages: the direction of a translator, if its folder does not name it.

    Raises:
        DataError: the model cannot be imported; the message says why.
    """
    folder = Checkpoint(source) if is_checkpoint(source) else ModelFolder(source)
    theirs = folder.weights()
    family = family_of(folder.config).for_tensors(theirs)
    spec = validate(ModelSpec, family.spec(folder.config), str(source / "config.json"))
    tokenizer = tokenizer_of(folder) if isinstance(folder, ModelFolder) else folder.tokenizer()
    weights, unused = _rename_weights(family, folder, theirs)
    vocabulary = _vocabulary(weights)
    model = spec.build(vocabulary)
    set_weights(model, weights, str(source))
    details: dict[str, Any] = {"max_length": spec.max_length, "imported": _origin(folder, unused)}
    if tokenizer.end >= vocabulary:
        raise DataError(
            f"{source}: its tokenizer has no end token ({', '.join(END_TOKENS)}), so generation "
            f"would never stop."
        )
    if tokenizer.pad >= vocabulary:
        details["pad"] = tokenizer.end  # without a padding token any token will do: it is masked
    extra_files: dict[str, str] = {}
    if family.begins_with_start:
        details["bos"] = [folder.config.get("bos_token_id", tokenizer.start)]
    if isinstance(folder, Checkpoint):
        details["end"] = BETWEEN
    elif family.task == "encoder":
        details |= embedder_settings(folder, spec.max_length)
    elif family.task == "translation":
        details["start"] = folder.config.get("decoder_start_token_id", tokenizer.start)
        details["suppressed_tokens"] = _suppressed_tokens(folder)
        direction = languages or _direction(folder)
        details["directions"] = [f"{direction.source} → {direction.target}"]
        identifier = LanguageIdentifier({direction.source: {}, direction.target: {}})
        extra_files["languages.json"] = identifier.to_json()
    run_folder.write(
        Run(
            task=family.task,
            model=plain(spec),
            vocabulary=vocabulary,
            details=details,
            weights=weights_of(model),
            tokenizer=tokenizer.to_json(),
            extra_files=extra_files,
            documents={"README.md": _card(folder, family, unused)},
        ),
        run,
    )


def _rename_weights(
    family: Family, folder: ModelFolder | Checkpoint, theirs: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], list[str]]:
    """The weights by Regard's names, and the names of those that Regard does not use."""
    names = family.names(folder.config)
    prefix = _prefix(family, theirs, next(iter(names.values())).name)
    used: set[str] = set()
    ours: dict[str, Tensor] = {}
    for name, take in names.items():
        for needed in (take.name, take.plus):
            if needed and prefix + needed not in theirs and needed not in theirs:
                raise DataError(
                    f"{folder.path}: the weights have no {needed}; the model is incomplete."
                )
        tensors = [_get(theirs, prefix, part, used) for part in (take.name, take.plus) if part]
        ours[name] = take.join(*tensors) if take.plus else take.change(tensors[0])
    unused = sorted(set(theirs) - used)
    unknown = [
        name
        for name in unused
        if not any(re.fullmatch(rf"({re.escape(prefix)})?{out}", name) for out in family.left_out)
    ]
    if unknown:
        raise DataError(
            f"{folder.path}: the weights have {unknown[0]}, which Regard does not know "
            f"({len(unknown)} such names); this is another kind of model than config.json says."
        )
    return ours, unused


def _prefix(family: Family, theirs: Mapping[str, Tensor], name: str) -> str:
    return next((prefix for prefix in family.prefixes if prefix + name in theirs), "")


def _get(theirs: Mapping[str, Tensor], prefix: str, name: str, used: set[str]) -> Tensor:
    full = prefix + name if prefix + name in theirs else name
    used.add(full)
    return theirs[full]


def _vocabulary(weights: Mapping[str, Tensor]) -> int:
    return next(len(t) for name, t in weights.items() if name.endswith("embedding.tokens.weight"))


def _suppressed_tokens(folder: ModelFolder) -> list[int]:
    """Tokens that must never be generated, such as Marian's padding."""
    name = "generation_config.json"
    settings = folder.read_json(name) if folder.has(name) else {}
    phrases = settings.get("bad_words_ids") or folder.config.get("bad_words_ids") or []
    return [ids[0] for ids in phrases if len(ids) == 1]


def _direction(folder: ModelFolder) -> Direction:
    config = (
        folder.read_json("tokenizer_config.json") if folder.has("tokenizer_config.json") else {}
    )
    source, target = config.get("source_lang"), config.get("target_lang")
    if not source or not target:
        raise DataError(
            f"{folder.path}: does not name its languages; give them: --languages fr-en."
        )
    return Direction(source, target)


def _origin(folder: ModelFolder | Checkpoint, unused: list[str]) -> dict[str, Any]:
    return {
        "from": folder.path.name,
        "type": folder.config.get("model_type"),
        "unused_weights": unused,
    }


def _card(folder: ModelFolder | Checkpoint, family: Family, unused: list[str]) -> str:
    left_out = f"\n\nNot used by Regard: {', '.join(unused)}." if unused else ""
    where = "a Hugging Face folder" if isinstance(folder, ModelFolder) else "llama2.c"
    return (
        f"# {folder.path.name}\n\nImported from {where}, a model of type "
        f"{folder.config.get('model_type')}, for {family.task}. Its license is that of its "
        f"authors.{left_out}\n"
    )
