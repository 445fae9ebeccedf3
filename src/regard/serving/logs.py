"""Logs on standard error: a line for each request, for people or as JSON.

Lines have no text of users, no key and no address: `--log-text` adds what models read and wrote.
"""

import json
import logging
import time
from types import TracebackType
from typing import Any

from regard.serving.request_record import RequestRecord
from regard.serving.settings import ServerSettings
from regard.serving.tracebacks import traceback_without_text

ACCESS = logging.getLogger("regard.serving.access")
ExceptionInfo = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)
PROBES = ("/healthz", "/readyz", "/metrics")  # every few seconds: not logged unless they fail


def log_request(record: RequestRecord) -> None:
    """Write the line of a request that has ended."""
    level = logging.DEBUG if record.route in PROBES and record.status == 200 else logging.INFO
    if ACCESS.isEnabledFor(level):
        ACCESS.log(level, "%s", _sentence(record), extra={"record": record})


def logging_config(settings: ServerSettings) -> dict[str, Any]:
    """Return the configuration of all loggers, for `logging.config` and for uvicorn."""
    formatter = JsonLines if settings.json_logs else PlainLines
    level = "WARNING" if settings.quiet else "INFO"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": formatter, "log_text": settings.log_text}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {"regard.serving": {"level": level}, "uvicorn": {"propagate": True}},
    }


class Lines(logging.Formatter):
    """Lines whose tracebacks have the messages of exceptions with `log_text` only."""

    def __init__(self, log_text: bool) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        self._log_text = log_text

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802  (named by logging)
        error = ei[1]
        if self._log_text or error is None:
            return super().formatException(ei)
        return traceback_without_text(error)


class PlainLines(Lines):
    """Lines for people: 12:00:01 POST /translate 200 fr-en 0.012 s, 7 → 8 tokens, 5f0c2b9a."""


class JsonLines(Lines):
    """Lines for programs: one JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
        }
        request = getattr(record, "record", None)
        if isinstance(request, RequestRecord):
            fields |= request_fields(request)
        else:
            fields["message"] = record.getMessage()
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def request_fields(record: RequestRecord) -> dict[str, Any]:
    """Return the fields of a request's line; those without a value are left out."""
    fields = {
        "request_id": record.id,
        "client": record.client,
        "method": record.method,
        "route": record.route,
        "status": record.status,
        "is_complete": record.is_complete,
        "model": record.model,
        "task": record.task,
        "seconds": round(record.seconds, 6),
        "seconds_to_first_token": record.seconds_to_first_token,
        "input_tokens": record.input_tokens,
        "output_tokens": record.output_tokens,
        "text": record.text,
    }
    return {name: value for name, value in fields.items() if value not in ("", None, [])}


def _sentence(record: RequestRecord) -> str:
    names = " ".join(filter(None, (record.method, record.route, str(record.status), record.model)))
    tokens = f"{record.input_tokens} → {record.output_tokens} tokens" if record.model else ""
    text = json.dumps(record.text, ensure_ascii=False) if record.text else ""
    gone = "" if record.is_complete else "the client was gone"
    parts = [f"{names} {record.seconds:.3f} s", tokens, gone, record.client, record.id, text]
    return ", ".join(filter(None, parts))
