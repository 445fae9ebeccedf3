"""The chat template of a Hugging Face folder: its own file, or part of tokenizer_config.json."""

from typing import Any

from regard.errors import DataError
from regard.interchange.folder import ModelFolder
from regard.run_folder import CHAT_TEMPLATE

JSON_FILES = ("chat_template.json", "tokenizer_config.json")
DEFAULT = "default"  # of several templates, the one without tools or documents


def chat_template(folder: ModelFolder) -> str | None:
    """Return the chat template of a folder, or None if it has none.

    Raises:
        DataError: It is no text.
    """
    if folder.has(CHAT_TEMPLATE):
        return folder.read_text(CHAT_TEMPLATE)
    for name in filter(folder.has, JSON_FILES):
        template = _only_one(folder.read_json(name).get("chat_template"))
        if template is None:
            continue
        if not isinstance(template, str):
            raise DataError(
                f"{folder.path / name}: chat_template is {template!r:.80}, not a text; delete the "
                f"key to import the model without it."
            )
        return template
    return None


def _only_one(templates: Any) -> Any:
    """Return the template; of a list of named ones, the default."""
    if not isinstance(templates, list):
        return templates
    by_name = {item.get("name"): item.get("template") for item in templates if _is_named(item)}
    return by_name.get(DEFAULT)


def _is_named(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)
