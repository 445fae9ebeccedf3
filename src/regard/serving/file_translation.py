"""Translation of an uploaded file: progress, and then the file.

Nothing of it is kept: the translated file is part of the answer.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Sequence
from pathlib import PurePosixPath
from typing import Any

from regard.serving.documents import Document, parse_document, translate_in_parts
from regard.serving.models import Models
from regard.serving.tasks import detect, translate

SAMPLE = 2000  # characters from which the language of a file is detected

Event = dict[str, Any]


async def translate_file(
    models: Models, model: str, name: str, content: bytes, source: str | None, to: str
) -> AsyncGenerator[Event, None]:
    """Yield {"done": …, "total": …} for each part of a file, and then its translation.

    Args:
        models: All models.
        model: Name of the translator.
        name: Name of the file, whose extension is its format.
        content: The bytes of the file.
        source: Its language (default: detected, for all of its texts together).
        to: Target language.

    Raises:
        ServingError: The file is not translated: its format, its size or its language.
    """
    document = await asyncio.to_thread(parse_document, name, content)
    source = source or await _language(models, model, document, to)

    async def translate_part(texts: Sequence[str]) -> list[str]:
        arguments = translate.Arguments(
            texts=list(texts), source=source, to=to, html=document.is_markup
        )
        result = await models.run(model, "translate", arguments)
        return [translation["text"] for translation in result["translations"]]

    translations: dict[str, str] = {}
    async for translations in translate_in_parts(document.texts, translate_part):
        yield {"done": len(translations), "total": len(document.texts)}
    file = await asyncio.to_thread(document.translated, translations)
    yield {"result": {"name": _name(name, to), "content": base64.b64encode(file).decode()}}


async def _language(models: Models, model: str, document: Document, to: str) -> str | None:
    """Return the most probable language of a document of those that are translated into another."""
    sample = "\n".join(document.texts)[:SAMPLE]
    result = await models.run(model, "detect", detect.Arguments(texts=[sample]))
    sources = {source for source, target in models.get(model).directions if target == to}
    (languages,) = result["languages"]
    return next((one["language"] for one in languages if one["language"] in sources), None)


def _name(name: str, to: str) -> str:
    """Return film.en.srt for film.srt."""
    path = PurePosixPath(name)
    return f"{path.stem}.{to}{path.suffix}"
