"""Settings of a sentence-transformers folder: how an encoder gives one vector for a text.

modules.json                the modules in order: encoder, pooling, perhaps normalization
1_Pooling/config.json       the pooling
sentence_bert_config.json   the longest text it was trained on; it may have more positions
"""

from typing import Any

from regard.errors import DataError
from regard.interchange.folder import ModelFolder

MODULES = "modules.json"
LENGTH = "sentence_bert_config.json"
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
            f"{folder.path / MODULES}: the modules are {', '.join(names)}; Regard supports only "
            f"Transformer, Pooling, Normalize; without this file the encoder alone can be imported."
        )
    settings = {"pooling": _pooling(folder, str(modules[1].get("path", "")))}
    return settings | {"normalize": len(names) == 3, "max_length": _length(folder, positions)}


def _pooling(folder: ModelFolder, path: str) -> str:
    name = f"{path}/config.json"
    config = folder.read_json(name)
    mode = config.get("pooling_mode") or [
        key.removeprefix(OLD_PREFIX).removesuffix("_tokens").removesuffix("_token")
        for key, on in config.items()
        if key.startswith(OLD_PREFIX) and on is True
    ]
    modes = [mode] if isinstance(mode, str) else list(mode)
    if len(modes) != 1 or modes[0] not in POOLING:
        raise DataError(
            f"{folder.path / name}: the pooling is {' and '.join(modes) or 'none'}, which Regard "
            f"has no equivalent of; it has {', '.join(POOLING)}."
        )
    return POOLING[modes[0]]


def _length(folder: ModelFolder, positions: int) -> int:
    config = folder.read_json(LENGTH) if folder.has(LENGTH) else {}
    if config.get("do_lower_case"):
        raise DataError(
            f"{folder.path / LENGTH}: do_lower_case is true, which Regard supports only "
            f"as a part of the tokenizer."
        )
    return min(positions, config.get("max_seq_length") or positions)
