"""Settings of a sentence-transformers folder: how an encoder gives one vector for a text.

modules.json                the modules in order: encoder, pooling, perhaps normalization
1_Pooling/config.json       the pooling
sentence_bert_config.json   the longest text it was trained on; it may have more positions
"""

from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.interchange.folder import ModelFolder

MODULES = "modules.json"
LENGTHS = ("sentence_bert_config.json", "sentence_roberta_config.json")
PROMPTS = "config_sentence_transformers.json"
POOLING = {"mean": "mean", "cls": "first", "max": "max"}  # by sentence-transformers' name
OLD_PREFIX = "pooling_mode_"  # older files have a flag for each: pooling_mode_cls_token


def embedder_settings(folder: ModelFolder, positions: int) -> dict[str, Any]:
    """Settings of the Embedder: pooling, normalize, max_length; empty for a plain encoder."""
    if not folder.has(MODULES):
        return {}
    modules = folder.read_list(MODULES)
    names = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules]
    if names not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise DataError(
            f"{folder.path / MODULES}: the modules are {', '.join(map(repr, names[:9]))}; Regard "
            f"supports only Transformer, Pooling, Normalize; without this file the encoder alone "
            f"can be imported."
        )
    _refuse_prompt(folder)
    if modules[0].get("path", "") not in ("", "."):
        raise DataError(
            f"{folder.path / MODULES}: the encoder is in {modules[0]['path']!r}, and Regard "
            f"imports the one in this folder."
        )
    settings = {"pooling": _pooling(folder, modules[1].get("path"))}
    return settings | {"normalize": len(names) == 3, "max_length": _length(folder, positions)}


def _refuse_prompt(folder: ModelFolder) -> None:
    """Refuse a text that sentence-transformers puts before every input."""
    config = folder.read_json(PROMPTS) if folder.has(PROMPTS) else {}
    if config.get("default_prompt_name"):
        raise DataError(
            f"{folder.path / PROMPTS}: default_prompt_name is {config['default_prompt_name']!r}, a "
            f"text before every input, which Regard does not support; delete it, and write the "
            f"prompt before your texts."
        )


def _pooling(folder: ModelFolder, path: Any) -> str:
    if not isinstance(path, str) or not path or Path(path).name != path or path == "..":
        raise DataError(
            f"{folder.path / MODULES}: the path of the pooling is {path!r}, which is not a folder "
            f"in this one."
        )
    name = f"{path}/config.json"
    config = folder.read_json(name)
    mode = config.get("pooling_mode") or [
        key.removeprefix(OLD_PREFIX).removesuffix("_tokens").removesuffix("_token")
        for key, on in config.items()
        if key.startswith(OLD_PREFIX) and on is True
    ]
    modes = [str(item) for item in (mode if isinstance(mode, list) else [mode])]
    if len(modes) != 1 or modes[0] not in POOLING:
        raise DataError(
            f"{folder.path / name}: the pooling is {' and '.join(modes) or 'none'}, which Regard "
            f"has no equivalent of; it has {', '.join(POOLING)}."
        )
    return POOLING[modes[0]]


def _length(folder: ModelFolder, positions: int) -> int:
    name = next((name for name in LENGTHS if folder.has(name)), None)
    config = {} if name is None else folder.read_json(name)
    if config.get("do_lower_case"):
        raise DataError(
            f"{folder.path / str(name)}: do_lower_case is true, which Regard supports only "
            f"as a part of the tokenizer."
        )
    length = config.get("max_seq_length")
    if length is None:
        return positions
    if type(length) is not int or length < 1:
        raise DataError(
            f"{folder.path / str(name)}: max_seq_length is {length!r}, not a number of tokens."
        )
    return min(positions, length)
