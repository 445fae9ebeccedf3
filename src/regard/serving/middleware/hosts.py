"""Requests of other sites, which a browser carries to a server that only its user can reach.

DNS rebinding: a site lets its own name resolve to this machine, so that its scripts may read the
answers. The Host header then has the name of that site, and the request is refused. An address in
its place is safe: no resolution of names took part.

Cross-site requests: without CORS, a browser does not show a site the answer, but it sends forms and
texts. The Origin header names the site, and a request that can change or compute something is
refused.
"""

import ipaddress
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serving.errors import BadRequest, ServingError

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class OtherSite(ServingError):  # noqa: N818
    """A request of a page of another site."""

    status = 403


class CheckHost:
    """ASGI middleware that refuses requests to names that are not the server's.

    Args:
        names: Names of the server; "*" is any, "*.example.org" any below a domain.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            hosts = Headers(scope=scope).getlist("host")
            if len(hosts) != 1 or not self._is_own(host_name(hosts[0])):
                raise BadRequest(
                    "the Host header does not name this server; use its address, or start it with "
                    "--allow-host NAME."
                )
        await self._app(scope, receive, send)

    def _is_own(self, name: str) -> bool:
        parents = ("*." + name.split(".", part)[part] for part in range(1, name.count(".") + 1))
        return is_address(name) or not self._names.isdisjoint(("*", name, *parents))


class CheckOrigin:
    """ASGI middleware that refuses what pages of other sites send.

    Args:
        origins: Origins whose pages may send requests, as "https://example.org"; "*" is any.
    """

    def __init__(self, app: ASGIApp, origins: Iterable[str]) -> None:
        self._app, self._origins = app, frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in SAFE_METHODS:
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            if origin is not None and not self._may_send(origin, headers.get("host", "")):
                raise OtherSite(
                    "pages of other sites may not send requests to this server, unless it is "
                    "started with --cors ORIGIN."
                )
        await self._app(scope, receive, send)

    def _may_send(self, origin: str, host: str) -> bool:
        is_same_site = origin.partition("://")[2].lower() == host.lower()
        return is_same_site or not self._origins.isdisjoint(("*", origin))


def host_name(host: str) -> str:
    """Return the name or address in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def is_address(name: str) -> bool:
    """Return whether a host is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
