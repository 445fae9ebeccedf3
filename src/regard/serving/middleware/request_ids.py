"""An id for every request: in its answer, in its log line, in its trace and in the worker."""

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.request_record import RequestRecord, begin_record

HEADER = "x-request-id"
SAFE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")  # it is written to logs and headers as it is


class RequestIds:
    """ASGI middleware that makes the record of a request, with the client's id or a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        record = RequestRecord(request_id(Headers(scope=scope)), scope["method"])
        begin_record(record)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = record.id
            await send(message)

        return await self._app(scope, receive, send_with_id)


def request_id(headers: Headers) -> str:
    """Return the client's id if it is safe to repeat, otherwise a new one."""
    own = headers.get(HEADER, "")
    return own if SAFE_ID.fullmatch(own) else secrets.token_hex(8)
