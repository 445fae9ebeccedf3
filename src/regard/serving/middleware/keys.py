"""API keys: who may send requests, and who did."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serving.api import libretranslate, page
from regard.serving.errors import Unauthorized
from regard.serving.key_file import KeyFile
from regard.serving.request_record import current_record
from regard.web.request_bodies import replay

# Probes, the pages, which ask for a key or have one, and what LibreTranslate's clients read.
OPEN_PATHS = frozenset(
    (
        "/",
        page.LOOK,
        "/healthz",
        "/readyz",
        "/health",
        "/languages",
        "/frontend/settings",
        "/favicon.ico",
    )
)
# The files of the page, and translated files, whose names nobody can guess.
OPEN_FOLDERS = (page.ASSETS, libretranslate.DOWNLOADS)
SCHEMES = ("bearer", "deepl-auth-key")  # of the Authorization header


class RequireKey:
    """ASGI middleware that refuses requests without a valid key and notes whose it is."""

    def __init__(self, app: ASGIApp, keys: KeyFile) -> None:
        self._app, self._keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or needs_no_key(scope["path"]):
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        key = key_of_headers(headers)
        if key is None and scope["path"] in libretranslate.PREFIXES:
            body = (await receive()).get("body", b"")  # whole: `body_limits` has read it
            receive = replay(body, receive)
            key = libretranslate.api_key(scope["query_string"], headers, body)
        owner = None if key is None else self._keys.owner(key)
        if owner is None:
            problem = "an API key is needed" if key is None else "the API key is not valid"
            raise Unauthorized(f"{problem}; send `Authorization: Bearer KEY`.")
        current_record().client = owner
        return await self._app(scope, receive, send)


def needs_no_key(path: str) -> bool:
    """Return whether requests to a path are answered without a key, and at any rate."""
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)


def key_of_headers(headers: Headers) -> str | None:
    """Return the key in the headers, or None."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() in SCHEMES and key.strip():
        return key.strip()
    return headers.get("x-api-key") or None
