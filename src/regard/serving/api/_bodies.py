"""Bodies of requests as JSON or as a form, on one route; a query string adds fields to a form.

FastAPI declares one kind of body for a route. These routes read the body themselves and describe
all kinds in the OpenAPI document.
"""

from asyncio import to_thread
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, Headers
from starlette.formparsers import MultiPartException, MultiPartParser

from regard.serving.errors import BadRequest

M = TypeVar("M", bound=BaseModel)

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MAX_FIELDS = 1000
LARGE = 1 << 16  # bytes
NO_OBJECT = ("json_invalid", "model_type", "model_attributes_type")  # kinds of problems

Fields = dict[str, str | list[str]]
Refuse = Callable[[ValidationError], BadRequest]


class Problem(NamedTuple):
    """A field of a request that is missing or wrong."""

    field: str  # empty if it is the whole body
    kind: str  # as pydantic names it
    message: str
    value: Any


async def read_body(request: Request, model: type[M], refuse: Refuse) -> M:
    """Return the fields of a request: of its JSON, or of its form and its query string.

    Args:
        request: The request.
        model: The fields.
        refuse: Returns the error for fields that are missing or wrong.

    Raises:
        BadRequest: The fields are missing or wrong.
    """
    try:
        if media_type(request.headers) == JSON:
            return model.model_validate_json(await request.body())
        return model.model_validate(await _form_fields(request))
    except ValidationError as error:
        raise refuse(error) from None


def json_body(model: type[BaseModel], *other_types: str) -> dict[str, Any]:
    """Return the description of a body in JSON, or of another type, with the fields of a model."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    content = {media: {"schema": schema} for media in (JSON, *other_types)}
    return {"requestBody": {"required": True, "content": content}}


def media_type(headers: Headers) -> str:
    """Return the media type of a body, without its parameters; empty if there is none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def url_fields(text: bytes) -> Fields:
    """Return the fields of a query string or form; one that occurs more than once is a list.

    Raises:
        BadRequest: The text is not UTF-8, or has too many fields.
    """
    try:
        pairs = parse_qsl(
            text.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise BadRequest(f"a form is at most {MAX_FIELDS} fields in UTF-8.") from None
    return _by_name(pairs)


async def read_multipart(request: Request) -> FormData:
    """Return the fields and files of a form; the files are in memory.

    Raises:
        BadRequest: The form is damaged.
    """
    body = await request.body()
    parser = MultiPartParser(
        request.headers, _once(body), max_fields=MAX_FIELDS, max_part_size=len(body) + 1
    )
    parser.spool_max_size = 0  # no file on disk: the body is in memory anyway
    try:
        return await parser.parse()
    except (MultiPartException, UnicodeError, LookupError):
        raise BadRequest("the form is damaged.") from None


def first_problem(error: ValidationError) -> Problem:
    """Return the first problem of a request."""
    problem = error.errors(include_url=False, include_context=False)[0]
    field = str(problem["loc"][0]) if problem["loc"] else ""
    return Problem(field, problem["type"], problem["msg"], problem["input"])


async def _form_fields(request: Request) -> Fields:
    query = url_fields(request.scope["query_string"])
    kind = media_type(request.headers)
    if kind == FORM:
        return query | await _off_loop(url_fields, await request.body())
    if kind == MULTIPART:
        form = await read_multipart(request)
        pairs = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        return query | _by_name(pairs)
    return query


async def _off_loop(parse: Callable[[bytes], Fields], body: bytes) -> Fields:
    """Parse a body, a large one in a thread: other requests go on (a second for 4 MB of %41)."""
    return await to_thread(parse, body) if len(body) > LARGE else parse(body)


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


def _by_name(pairs: Sequence[tuple[str, str]]) -> Fields:
    values = defaultdict(list)
    for name, value in pairs:
        values[name].append(value)
    return {name: own[0] if len(own) == 1 else own for name, own in values.items()}
