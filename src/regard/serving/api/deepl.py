"""The protocol of DeepL's API, version 2, for its clients.

Languages have codes in capitals, with variants of a target (EN-US), which the models do not
distinguish. Parameters that would change a translation and cannot are refused, not ignored.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from regard.data.languages import describe_language
from regard.serving.api._bodies import FORM, NO_OBJECT, first_problem, json_body, read_body
from regard.serving.api._translators import Translators, known_language
from regard.serving.errors import BadRequest, ServingError
from regard.serving.models import Models
from regard.serving.settings import ServerSettings

PREFIXES = ("/v2/",)
STATUSES = {401: 403, 422: 400}  # by the statuses of ServingError
MAX_TEXTS = 50
UNLIMITED = 10**12  # characters; DeepL writes no limit so

# Variants of target languages, which clients ask for by name.
VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value  # of a form with one text


class DeepLRequest(BaseModel, extra="forbid"):
    """Texts to translate; there are no fields for what the models cannot do."""

    text: Annotated[list[str], BeforeValidator(_as_list), Field(min_length=1, max_length=MAX_TEXTS)]
    target_lang: str = Field(min_length=1, max_length=64)
    source_lang: str | None = Field(None, max_length=64)
    tag_handling: Literal["html", "xml"] | None = None
    tag_handling_version: Literal["v1", "v2"] | None = None
    split_sentences: Literal["0", "1", "nonewlines"] | None = None
    preserve_formatting: bool | None = None
    formality: Literal["default", "prefer_less", "prefer_more"] | None = None
    outline_detection: Literal[True, "1"] | None = None
    model_type: str | None = None  # there is one
    show_billed_characters: bool = True
    auth_key: str | None = None


class DeepLTranslation(BaseModel):
    """A translated text."""

    detected_source_language: str
    text: str
    billed_characters: int


class DeepLResponse(BaseModel):
    """One translation for each text."""

    translations: list[DeepLTranslation]


class LanguagesRequest(BaseModel):
    """The languages that are asked for."""

    type: Literal["source", "target"] = "source"


class DeepLLanguage(BaseModel):
    """A language; of targets, also whether formality can be chosen."""

    language: str
    name: str
    supports_formality: bool | None = None


class DeepLUsage(BaseModel):
    """Characters that were translated since the server was started, and their limit."""

    character_count: int
    character_limit: int


class DeepLError(BaseModel):
    """An error, in one sentence."""

    message: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": DeepLError} for status in (400, 403, 413, 429, 503, 504)
}
TYPE = {"name": "type", "in": "query", "schema": {"type": "string", "enum": ["source", "target"]}}


def router(models: Models, _: ServerSettings) -> APIRouter:
    """Return the routes of the protocol."""
    server = _Server(models)
    routes = APIRouter(prefix="/v2", tags=["DeepL"], responses=ERRORS)
    routes.post(
        "/translate",
        response_model=DeepLResponse,
        openapi_extra=json_body(DeepLRequest, FORM),
    )(server.translate)
    routes.get(
        "/languages",
        response_model=list[DeepLLanguage],
        response_model_exclude_none=True,
        openapi_extra={"parameters": [TYPE]},
    )(server.languages)
    routes.get("/usage", response_model=DeepLUsage)(server.usage)
    return routes


def error_body(error: ServingError) -> dict[str, Any]:
    """Return the body of an answer to an error."""
    return {"message": error.message}


class _Server:
    """Answers to the requests of the protocol."""

    def __init__(self, models: Models) -> None:
        self._translators = Translators(models)
        self._characters = 0  # translated so far

    async def translate(self, request: Request) -> Response:
        """Translate texts; one that is in the target language already is returned as it is."""
        fields = await read_body(request, DeepLRequest, _refuse)
        source = self._language("source_lang", fields.source_lang) if fields.source_lang else None
        translations = await self._translators.translate(
            fields.text,
            source,
            self._language("target_lang", fields.target_lang),
            html=fields.tag_handling is not None,
        )
        self._characters += sum(map(len, fields.text))
        return JSONResponse(
            {
                "translations": [
                    {
                        "detected_source_language": own["source"].upper(),
                        "text": own["text"],
                        "billed_characters": len(text),
                    }
                    for text, own in zip(fields.text, translations, strict=True)
                ]
            }
        )

    async def languages(self, request: Request) -> list[DeepLLanguage]:
        """List the source languages, or the target languages with their variants."""
        fields = await read_body(request, LanguagesRequest, _refuse)
        directions = self._translators.directions()
        if fields.type == "source":
            return [_language(code) for code in sorted({source for source, _ in directions})]
        return [
            DeepLLanguage(language=code, name=name, supports_formality=False)
            for target in sorted({target for _, target in directions})
            for code, name in VARIANTS.get(
                target, {target.upper(): describe_language(target)}
            ).items()
        ]

    async def usage(self) -> DeepLUsage:
        """Return the number of characters that were translated since the server was started."""
        return DeepLUsage(character_count=self._characters, character_limit=UNLIMITED)

    def _language(self, field: str, code: str) -> str:
        language = known_language(code, self._translators.languages())
        if language is None:
            raise BadRequest(f"Value for '{field}' not supported.", field)
        return language


def _language(code: str) -> DeepLLanguage:
    return DeepLLanguage(language=code.upper(), name=describe_language(code))


def _refuse(error: ValidationError) -> BadRequest:
    """Return the error for the first wrong field."""
    problem = first_problem(error)
    field = problem.field
    if problem.kind in NO_OBJECT:
        return BadRequest("Bad request. Reason: the body is no JSON object.")
    if problem.kind == "missing":
        return BadRequest(f"Parameter '{field}' not specified.", field)
    if problem.kind == "extra_forbidden":
        return BadRequest(f"'{field}' is not supported: leave it out.", field)
    return BadRequest(f"Value for '{field}' not supported: {problem.message}.", field)
