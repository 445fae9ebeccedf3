"""Limits of the number of requests: a token bucket for each key, or for each address.

A bucket holds a minute's requests and is refilled evenly. Of each bucket one number is kept, the
time at which it will be full again (the generic cell rate algorithm): a bucket that is full needs
no memory at all.
"""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serving.errors import TooManyRequests
from regard.serving.middleware.keys import needs_no_key
from regard.serving.request_record import current_record

MAX_BUCKETS = 50_000  # of the clients seen last


class TokenBuckets:
    """Requests that clients may still send.

    Args:
        per_minute: Requests of one client in a minute, all of them at once if it likes.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        per_minute: int,
        max_buckets: int = MAX_BUCKETS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval, self._capacity = 60 / per_minute, 60.0
        self._max_buckets, self._clock = max_buckets, clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def take(self, client: str) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        now = self._clock()
        full_at = max(self._full_at.get(client, now), now) + self._interval
        missing = full_at - now - self._capacity
        if missing > 1e-9:
            return missing
        self._full_at[client] = full_at
        self._full_at.move_to_end(client)
        if len(self._full_at) > self._max_buckets:
            self._full_at.popitem(last=False)
        return 0.0

    def __len__(self) -> int:
        return len(self._full_at)


class LimitRate:
    """ASGI middleware that refuses requests beyond a rate; it is inside of the check of keys."""

    def __init__(self, app: ASGIApp, per_minute: int) -> None:
        self._app, self._per_minute = app, per_minute
        self._buckets = TokenBuckets(per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not needs_no_key(scope["path"]):
            seconds = self._buckets.take(current_record().client or client_of(scope))
            if seconds > 0:
                raise TooManyRequests(
                    f"this is more than {self._per_minute:,} requests a minute; wait.",
                    retry_after=seconds,
                )
        await self._app(scope, receive, send)


def client_of(scope: Scope) -> str:
    """Return the address of a client; of IPv6, the network of 64 bits that one client has."""
    host = (scope.get("client") or ("", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host  # of a Unix socket, or a test
    if address.version == 6:
        return str(ipaddress.ip_network((address.packed[:8] + bytes(8), 64)))
    return str(address)
