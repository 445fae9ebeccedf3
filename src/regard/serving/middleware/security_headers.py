"""Headers that tell a browser how little an answer may do."""

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Scripts, styles and requests of the page's own server only, no plugins, no frames around it.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
OF_ALL = {"X-Content-Type-Options": "nosniff"}  # a text of a user in JSON is never shown as a page
OF_PAGES = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class SecurityHeaders:
    """ASGI middleware that adds the headers that an answer does not have already."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                _add(headers, OF_ALL)
                if headers.get("content-type", "").startswith("text/html"):
                    _add(headers, OF_PAGES)
            await send(message)

        await self._app(scope, receive, send_secured if scope["type"] == "http" else send)


def _add(headers: MutableHeaders, defaults: Mapping[str, str]) -> None:
    for name, value in defaults.items():
        headers.setdefault(name, value)
