"""The translators of a server as one: the model for each direction, and the languages of texts.

The first model that translates in a direction is the one for it. If the language of a text is not
given, all translators detect it first.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from regard.data.languages import language_named
from regard.serving.errors import BadRequest
from regard.serving.models import Models
from regard.serving.tasks import detect
from regard.serving.tasks import translate as translation

TAG = re.compile(r"<[^<>]*>")
REGION = re.compile(r"[-_].*")
MAX_SAMPLE = 10_000  # characters of a document that show its language


class Detection(BaseModel):
    """A language that a text may be in."""

    confidence: float  # 0 to 100
    language: str


class Translators:
    """The translators of a server.

    Args:
        models: The models of the server.
    """

    def __init__(self, models: Models) -> None:
        self._models = models

    def directions(self) -> dict[tuple[str, str], str]:
        """Return the model for each source and target language: the first that there is."""
        names: dict[tuple[str, str], str] = {}
        for info in self._models.list():
            if "translate" in info.tasks:
                for direction in info.directions:
                    names.setdefault(direction, info.name)
        return names

    def languages(self) -> list[str]:
        """Return all languages, sorted."""
        return sorted({language for direction in self.directions() for language in direction})

    async def detect(self, texts: Sequence[str]) -> list[list[Detection]]:
        """Return the languages that each text may be in, most probable first."""
        confidences: list[dict[str, float]] = [{} for _ in texts]
        for name in self._detectors():
            arguments = detect.Arguments(texts=list(texts))
            result = await self._models.run(name, "detect", arguments)
            for by_language, detections in zip(confidences, result["languages"], strict=True):
                for own in detections:
                    language, confidence = own["language"], own["confidence"]
                    by_language[language] = max(confidence, by_language.get(language, 0.0))
        return [
            sorted(
                (Detection(confidence=c, language=language) for language, c in own.items()),
                key=lambda detection: -detection.confidence,
            )
            for own in confidences
        ]

    async def translate(
        self, texts: Sequence[str], source: str | None, target: str, **options: Any
    ) -> list[dict[str, Any]]:
        """Return the translations of texts, as the task `translate` does.

        Args:
            texts: The texts.
            source: Their language; None: it is detected, that of each text by itself.
            target: Language of the translations; a text in this language stays as it is.
            options: Other arguments of the task.

        Raises:
            ServingError: No model translates in this direction, or the request failed.
        """
        if source is None:
            return await self._translate_detected(texts, target, options)
        name = self._model_for(source, target)
        if name is None:
            raise BadRequest(f"no model translates from {source} to {target}.")
        arguments = translation.Arguments(texts=list(texts), source=source, to=target, **options)
        result = await self._models.run(name, "translate", arguments)
        translations: list[dict[str, Any]] = result["translations"]
        return translations

    def _model_for(self, source: str, target: str) -> str | None:
        """Return the model for a direction; from a language to itself, any that knows it."""
        for info in self._models.list():
            is_known = source == target and any(source in own for own in info.directions)
            if "translate" in info.tasks and ((source, target) in info.directions or is_known):
                return info.name
        return None

    async def source_of(self, texts: Sequence[str], target: str) -> str:
        """Return the language of a document that is translated into `target`.

        Raises:
            BadRequest: No model translates into this language.
        """
        (detection,) = await self._detect_for(target, ["\n".join(texts)[:MAX_SAMPLE]])
        return detection.language

    async def _detect_for(self, target: str, texts: Sequence[str]) -> list[Detection]:
        """Return the most probable language of each text among those translated into `target`.

        Raises:
            BadRequest: No model translates into this language.
        """
        sources = sorted(source for source, to in self.directions() if to == target)
        if not sources:
            raise BadRequest(f"no model translates to {target}.")
        unknown = Detection(confidence=0, language=sources[0])
        return [
            next((own for own in ranked if own.language in (*sources, target)), unknown)
            for ranked in await self.detect(texts)
        ]

    async def _translate_detected(
        self, texts: Sequence[str], target: str, options: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Translate texts by their most probable languages that are translated into `target`."""
        plain = [TAG.sub(" ", text) for text in texts] if options.get("html") else texts
        detections = await self._detect_for(target, plain)
        numbers = defaultdict(list)
        for number, detection in enumerate(detections):
            numbers[detection.language].append(number)
        results: dict[int, dict[str, Any]] = {}
        for source, own in numbers.items():
            translations = await self.translate(
                [texts[number] for number in own], source, target, **options
            )
            for number, translated in zip(own, translations, strict=True):
                confidence = detections[number].confidence
                results[number] = translated | {"source_confidence": confidence}
        return [results[number] for number in range(len(texts))]

    def _detectors(self) -> Iterable[str]:
        """Return the names of the translators, one for each set of languages."""
        names: dict[frozenset[tuple[str, str]], str] = {}
        for info in self._models.list():
            if "detect" in info.tasks:
                names.setdefault(frozenset(info.directions), info.name)
        return names.values()


def known_language(code: str, known: Collection[str]) -> str | None:
    """Return the language of a code as the models name it; None if they do not know it.

    EN-US, eng, eng_Latn and English are en, if no language of the models is named so itself.
    """
    if code in known:
        return code
    by_code = {language.casefold(): language for language in known}
    code = code.strip().casefold()
    names = (code, REGION.sub("", code), language_named(REGION.sub("", code)) or "")
    return next((by_code[name] for name in names if name in by_code), None)
