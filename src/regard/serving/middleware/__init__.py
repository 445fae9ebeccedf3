"""ASGI middleware around the application.

From the outermost to the innermost:

    request_ids        the record of the request, with its id
    observation        its log line, metrics and span, whoever answers
    security_headers   headers of the answer for browsers
    CORS               pages of other sites that may send requests, where asked for
    answers            answers of those below, in the shape of the protocol
    hosts              requests of other sites refused, before their body is read
    body_limits        the body read within limits, before anything looks at it
    keys               who sends the request
    rate_limits        how many requests that client may send
"""

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from regard.serving.key_file import KeyFile
from regard.serving.metrics import Metrics
from regard.serving.middleware.answers import AnswerErrors
from regard.serving.middleware.body_limits import LimitBodies
from regard.serving.middleware.hosts import CheckHost, CheckOrigin
from regard.serving.middleware.keys import RequireKey
from regard.serving.middleware.observation import Observe
from regard.serving.middleware.rate_limits import LimitRate
from regard.serving.middleware.request_ids import HEADER, RequestIds
from regard.serving.middleware.security_headers import SecurityHeaders
from regard.serving.settings import ServerSettings


def protected(app: ASGIApp, settings: ServerSettings, metrics: Metrics) -> ASGIApp:
    """Return the application with the middleware around it."""
    from regard.serving.app import error_response

    if settings.rate_limit is not None:
        app = LimitRate(app, settings.rate_limit)
    if settings.keys_file is not None:
        app = RequireKey(app, KeyFile(settings.keys_file))
    app = LimitBodies(app, settings.max_body)
    app = CheckOrigin(app, settings.cors_origins)
    app = CheckHost(app, (settings.host, *settings.allowed_hosts))
    app = AnswerErrors(app, error_response)
    if settings.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=[HEADER, "Retry-After"],
        )
    return RequestIds(Observe(SecurityHeaders(app), metrics))
