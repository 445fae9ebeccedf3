"""Errors of requests, each with the HTTP status that answers it.

The message is one sentence that ends with a full stop. It is sent to the client, so it names
nothing of the server that the client need not know.
"""

from typing import Any


class ServingError(Exception):
    """A request that cannot be answered.

    Args:
        message: One sentence.
        param: Name of the field of the request that is wrong, if one is.
        retry_after: Seconds after which the same request may be answered.
        status: HTTP status (default: that of the class).
        code: Name of the error, for protocols that name some.
    """

    status: int = 500

    def __init__(
        self,
        message: str,
        param: str | None = None,
        retry_after: float | None = None,
        status: int | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.param, self.retry_after = message, param, retry_after
        self.status = status or self.status
        self.code = code

    def to_message(self) -> dict[str, Any]:
        """Return the error as plain data, for the other process."""
        return {
            "status": self.status,
            "message": self.message,
            "param": self.param,
            "retry_after": self.retry_after,
            "code": self.code,
        }


class BadRequest(ServingError):  # noqa: N818  (named as HTTP names it, as those below)
    """A request that is not well formed."""

    status = 400


class NotSupported(BadRequest):
    """A request for something that the model or the protocol does not do here."""


class Unauthorized(ServingError):  # noqa: N818
    """A request without a valid key."""

    status = 401


class NotFound(ServingError):  # noqa: N818
    """A model or path that does not exist."""

    status = 404


class TooLarge(ServingError):  # noqa: N818
    """A request with more than the server takes."""

    status = 413


class Unprocessable(ServingError):  # noqa: N818
    """A well-formed request whose content the model refuses."""

    status = 422


class TooManyRequests(ServingError):  # noqa: N818
    """A request beyond the queue or beyond a rate limit."""

    status = 429


class InternalError(ServingError):
    """A bug in Regard; the server's log has the traceback."""

    status = 500


class Unavailable(ServingError):  # noqa: N818
    """A request to a model whose worker has crashed, or to a server that is ending."""

    status = 503


class TimedOut(ServingError):  # noqa: N818
    """A request that took longer than the server allows."""

    status = 504


def error_of_status(
    status: int,
    message: str,
    param: str | None = None,
    retry_after: float | None = None,
    code: str | None = None,
) -> ServingError:
    """Return an error of the class that a status belongs to."""
    return _BY_STATUS.get(status, ServingError)(message, param, retry_after, status, code)


_BY_STATUS = {error_class.status: error_class for error_class in ServingError.__subclasses__()}
