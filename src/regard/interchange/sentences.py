"""How a folder of sentence-transformers makes one vector of a text, by its own papers.

modules.json                what follows what: the encoder, pooling, perhaps vectors of length 1
1_Pooling/config.json       which states the vector is made of
sentence_bert_config.json   how long the texts it was trained on are; it may have more positions
"""

from typing import Any

from regard.errors import DataError
from regard.interchange.folder import ModelFolder

MODULES = "modules.json"
LENGTH = "sentence_bert_config.json"
POOLING = {"mean": "mean", "cls": "first", "max": "max"}  # by their names and ours
OLDER = "pooling_mode_"  # once a switch for each: pooling_mode_cls_token


def reading_of(folder: ModelFolder, positions: int) -> dict[str, Any]:
    """What a reader is made with; a plain encoder says nothing of it and gets the usual."""
    if not folder.has(MODULES):
        return {}
    modules = folder.read_list(MODULES)
    names = [str(each.get("type", "")).rsplit(".", 1)[-1] for each in modules]
    if names not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise DataError(
            f"{folder.path / MODULES}: it puts {', '.join(names)} together, and Regard has no "
            f"place for other parts than Transformer, Pooling, Normalize; without this file the "
            f"encoder alone can be imported."
        )
    found = {"pooling": _pooling(folder, str(modules[1].get("path", "")))}
    return found | {"normalize": len(names) == 3, "max_length": _length(folder, positions)}


def _pooling(folder: ModelFolder, path: str) -> str:
    name = f"{path}/config.json"
    config = folder.read_json(name)
    asked = config.get("pooling_mode") or [
        key.removeprefix(OLDER).removesuffix("_tokens").removesuffix("_token")
        for key, on in config.items()
        if key.startswith(OLDER) and on is True
    ]
    modes = [asked] if isinstance(asked, str) else list(asked)
    if len(modes) != 1 or modes[0] not in POOLING:
        raise DataError(
            f"{folder.path / name}: the pooling is {' and '.join(modes) or 'none'}, which Regard "
            f"has no equivalent of; it has {', '.join(POOLING)}."
        )
    return POOLING[modes[0]]


def _length(folder: ModelFolder, positions: int) -> int:
    known = folder.read_json(LENGTH) if folder.has(LENGTH) else {}
    if known.get("do_lower_case"):
        raise DataError(
            f"{folder.path / LENGTH}: do_lower_case is true, which Regard has no equivalent of "
            f"where the tokeniser does not do it."
        )
    return min(positions, known.get("max_seq_length") or positions)
