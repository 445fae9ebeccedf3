"""Import a Hugging Face folder, or a llama2.c checkpoint, as a run folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard import run_folder
from regard.config import plain, validate
from regard.data.direction import Direction
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import SPECIAL_ROLES, Tokenizer
from regard.errors import DataError
from regard.interchange.chat_templates import chat_template
from regard.interchange.config import HuggingFaceConfig, read_config
from regard.interchange.families.base import Family, family_of
from regard.interchange.folder import ModelFolder
from regard.interchange.generation import GENERATION, SpecialTokens, end_details, special_tokens
from regard.interchange.llama2c import Checkpoint, is_checkpoint
from regard.interchange.renaming import check_shapes, rename_weights
from regard.interchange.sentences import embedder_settings
from regard.interchange.tokenizers import adds_start_token, tokenizer_of
from regard.interchange.verify import largest_difference
from regard.models.base import ModelSpec
from regard.run_folder import Run

END_TOKENS = ("</s>", "[SEP]", "<eos>", "<|endoftext|>", "<|end_of_text|>")


@dataclass(frozen=True)
class _Source:
    """A model that was read, compared with its config, and renamed."""

    folder: ModelFolder | Checkpoint
    family: Family
    config: HuggingFaceConfig
    spec: ModelSpec
    weights: dict[str, Tensor]
    unused: dict[str, str]  # tensors that are left out, with the reason
    vocabulary: int
    tokens: SpecialTokens


def import_model(
    source: Path,
    run: Path,
    languages: Direction | None = None,
    verify: bool = False,
    overwrite: bool = False,
) -> float | None:
    """Import a model.

    Args:
        source: a Hugging Face folder, or a folder or file of llama2.c.
        run: the run folder to write.
        languages: the direction of a translator, if its folder does not name it.
        verify: compare the outputs with those of transformers on random tokens, and refuse a model
            whose outputs differ (default: False).
        overwrite: replace a run that is in the folder (default: False).

    Returns:
        With `verify`, the largest difference, as a fraction of the largest output; else None.

    Raises:
        DataError: the model cannot be imported; the message says why.
        ConfigError: transformers, which `verify` needs, is not installed.
        OutputError: the run folder holds a run, or another process writes it.
    """
    with run_folder.writing(run):
        run_folder.refuse_to_replace(run, overwrite)
        return _import(source, run, languages, verify)


def _import(source: Path, run: Path, languages: Direction | None, verify: bool) -> float | None:
    model = _read(Checkpoint(source) if is_checkpoint(source) else ModelFolder(source))
    folder = model.folder
    tokenizer = (
        tokenizer_of(folder, model.vocabulary)
        if isinstance(folder, ModelFolder)
        else folder.tokenizer()
    )
    details = _details(model, tokenizer)
    extra_files: dict[str, str] = {}
    if model.family.task == "translation":
        direction = languages or _direction(folder)
        details["directions"] = [f"{direction.source} → {direction.target}"]
        identifier = LanguageIdentifier({direction.source: {}, direction.target: {}})
        extra_files["languages.json"] = identifier.to_json()
    if model.family.task == "language-model" and (template := _chat_template(folder)):
        extra_files[run_folder.CHAT_TEMPLATE] = template
    difference = None
    if verify:
        difference = largest_difference(
            folder, model.family.task, model.spec, model.vocabulary, model.weights
        )
    run_folder.write(
        Run(
            task=model.family.task,
            model=plain(model.spec),
            vocabulary=model.vocabulary,
            details=details,
            weights=model.weights,
            tokenizer=tokenizer.to_json(),
            extra_files=extra_files,
            documents={"README.md": _card(folder, model.family, model.unused)},
        ),
        run,
    )
    return difference


def _read(folder: ModelFolder | Checkpoint) -> _Source:
    """Read a model; refuse one whose config, weights and special tokens do not agree."""
    where = str(folder.path / "config.json")
    family = family_of(folder.config.get("model_type"), where)
    config = read_config(family.config, folder.config, where)
    theirs = folder.weights()
    family = family.for_tensors(theirs)
    spec = validate(ModelSpec, family.spec(config), where)
    weights, unused = rename_weights(family, config, theirs, folder.path)
    vocabulary = _vocabulary(weights)
    if config.vocab_size not in (None, vocabulary):
        raise DataError(
            f"{where}: vocab_size is {config.vocab_size:,}, and the embedding has {vocabulary:,} "
            f"rows."
        )
    check_shapes(spec, vocabulary, weights, folder.path)
    generation: dict[str, Any] = {}
    if isinstance(folder, ModelFolder) and folder.has(GENERATION):
        generation = folder.read_json(GENERATION)
    tokens = special_tokens(folder.config, generation, folder.path, vocabulary)
    return _Source(folder, family, config, spec, weights, unused, vocabulary, tokens)


def _details(model: _Source, tokenizer: Tokenizer) -> dict[str, Any]:
    """Details of the run: lengths, and ids of special tokens that the tokenizer does not name."""
    folder, tokens, task = model.folder, model.tokens, model.family.task
    details: dict[str, Any] = {
        "max_length": model.spec.max_length,
        "imported": _origin(folder, model.unused),
    }
    if task in ("translation", "language-model"):
        details |= end_details(tokens, tokenizer)
    if task == "language-model" and _begins_with_start(model):
        start = tokenizer.start if tokens.bos_token_id is None else tokens.bos_token_id
        details["bos"] = [start]
    if task == "encoder" and isinstance(folder, ModelFolder):
        details |= embedder_settings(folder, model.spec.max_length)
    elif task == "translation":
        details |= _translator_details(model)
    elif tokens.suppressed:
        raise DataError(
            f"{folder.path}: bad_words_ids or suppress_tokens name tokens that are never generated "
            f"({tokens.suppressed[0]}), which Regard supports for translators only; delete them."
        )
    details |= _inside_vocabulary(model, tokenizer, details)
    return details


def _begins_with_start(model: _Source) -> bool:
    folder = model.folder
    stated = adds_start_token(folder) if isinstance(folder, ModelFolder) else None
    return model.family.begins_with_start if stated is None else stated


def _inside_vocabulary(
    model: _Source, tokenizer: Tokenizer, details: Mapping[str, Any]
) -> dict[str, Any]:
    """Ids for roles whose piece the model does not have; refuse a tokenizer that is too large."""
    end = details.get("end", tokenizer.end)
    if end >= model.vocabulary:
        raise DataError(
            f"{model.folder.path}: its tokenizer has no end token ({', '.join(END_TOKENS)}) and "
            f"config.json no eos_token_id, so generation would never stop."
        )
    pad = model.tokens.pad_token_id
    # Without a padding token any token will do, because it is masked.
    replacements = {"pad": end if pad is None else pad, "start": end}
    added = {
        role: token
        for role, token in replacements.items()
        if details.get(role, getattr(tokenizer, role)) >= model.vocabulary
    }
    for role in SPECIAL_ROLES:
        token = {**details, **added}.get(role, getattr(tokenizer, role))
        setattr(tokenizer, role, token)
    special = ["mask"] if model.family.task == "masked-lm" else []
    tokenizer.check_fits(model.vocabulary, str(model.folder.path), special)
    return added


def _translator_details(model: _Source) -> dict[str, Any]:
    tokens, path = model.tokens, model.folder.path
    if tokens.decoder_start_token_id is None:
        raise DataError(
            f"{path}: config.json has no decoder_start_token_id, the first token of every "
            f"translation."
        )
    if len(tokens.ends) > 1:
        raise DataError(
            f"{path}: eos_token_id names {len(tokens.ends)} tokens; Regard supports several end "
            f"tokens for language models only."
        )
    return {"start": tokens.decoder_start_token_id, "suppressed_tokens": tokens.suppressed}


def _chat_template(folder: ModelFolder | Checkpoint) -> str | None:
    return chat_template(folder) if isinstance(folder, ModelFolder) else None


def _vocabulary(weights: Mapping[str, Tensor]) -> int:
    return next(len(t) for name, t in weights.items() if name.endswith("embedding.tokens.weight"))


def _direction(folder: ModelFolder | Checkpoint) -> Direction:
    assert isinstance(folder, ModelFolder)
    name = "tokenizer_config.json"
    config = folder.read_json(name) if folder.has(name) else {}
    source, target = config.get("source_lang"), config.get("target_lang")
    if not source or not target:
        raise DataError(
            f"{folder.path}: does not name its languages; give them: --languages fr-en."
        )
    for language in (source, target):
        if not isinstance(language, str) or not language.isprintable() or " " in language:
            raise DataError(
                f"{folder.path / name}: {language!r} is not the name of a language; give the "
                f"languages: --languages fr-en."
            )
    return Direction(source, target)


def _origin(folder: ModelFolder | Checkpoint, unused: Mapping[str, str]) -> dict[str, Any]:
    return {
        "from": folder.path.name,
        "type": folder.config.get("model_type"),
        "unused_weights": sorted(unused),
    }


def _card(folder: ModelFolder | Checkpoint, family: Family, unused: Mapping[str, str]) -> str:
    left_out = "".join(f"\n- {name}: {reason}" for name, reason in unused.items())
    left_out = f"\n\nTensors that Regard does not use:\n{left_out}" if unused else ""
    where = "a Hugging Face folder" if isinstance(folder, ModelFolder) else "llama2.c"
    return (
        f"# {folder.path.name}\n\nImported from {where}, a model of type "
        f"{folder.config.get('model_type')}, for {family.task}. Its license is that of its "
        f"authors.{left_out}\n"
    )
