"""The access log: what its lines have, and what they never have."""

import io
import json
import logging
import logging.config
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.serving import logs
from regard.serving.request_record import RequestRecord
from regard.serving.settings import ServerSettings
from regard.serving.tracebacks import traceback_without_text

SECRET = "mnemosyne"
RECORD = RequestRecord(
    id="5f0c2b9a",
    method="POST",
    route="/translate",
    client="anna",
    model="fr-en",
    task="translate",
    status=200,
    is_complete=True,
    input_tokens=7,
    output_tokens=8,
    started=10.0,
    ended=10.0131,
)


@contextmanager
def configured(monkeypatch: pytest.MonkeyPatch, **options: bool) -> Iterator[io.StringIO]:
    """Configure logs as a server does; yield what is written."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root, serving = logging.getLogger(), logging.getLogger("regard.serving")
    before = root.handlers[:], root.level, serving.level
    try:
        logging.config.dictConfig(logs.logging_config(ServerSettings((Path("run"),), **options)))
        yield stream
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        serving.setLevel(before[2])


def test_a_request_is_one_line_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    with configured(monkeypatch) as stream:
        logs.log_request(RECORD)
        logs.log_request(RequestRecord(id="1", method="GET", status=404, started=1, ended=1.5))
    first, second = stream.getvalue().splitlines()
    assert first[9:] == "POST /translate 200 fr-en 0.013 s, 7 → 8 tokens, anna, 5f0c2b9a"
    assert second[9:] == "GET unmatched 404 0.500 s, the client was gone, 1"


def test_lines_for_programs_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    with configured(monkeypatch, json_logs=True) as stream:
        logs.log_request(RECORD)
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        try:
            raise ValueError(SECRET)
        except ValueError:
            logging.getLogger("anything").exception("it failed")
    request, warning, failure = map(json.loads, stream.getvalue().splitlines())
    assert request.pop("time").endswith("Z")
    assert request == {
        "level": "info",
        "request_id": "5f0c2b9a",
        "client": "anna",
        "method": "POST",
        "route": "/translate",
        "status": 200,
        "is_complete": True,
        "model": "fr-en",
        "task": "translate",
        "seconds": 0.0131,
        "input_tokens": 7,
        "output_tokens": 8,
    }
    assert (warning["level"], warning["message"]) == ("warning", "Invalid HTTP request received.")
    assert failure["traceback"].endswith("builtins.ValueError")
    assert "test_logs.py" in failure["traceback"]
    assert SECRET not in stream.getvalue()


def test_probes_are_logged_when_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    with configured(monkeypatch) as stream:
        logs.log_request(RequestRecord(method="GET", route="/readyz", status=200))
        logs.log_request(RequestRecord(method="GET", route="/readyz", status=503))
    (line,) = stream.getvalue().splitlines()
    assert "GET /readyz 503" in line


def test_messages_of_exceptions_are_logged_with_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    with configured(monkeypatch, log_text=True) as stream:
        try:
            try:
                raise KeyError(SECRET)
            except KeyError as error:
                raise ValueError("other") from error
        except ValueError as error:
            logging.getLogger("anything").exception("it failed")
            without = traceback_without_text(error)
    assert f"KeyError: '{SECRET}'" in stream.getvalue()
    assert without.index("builtins.ValueError") < without.index("builtins.KeyError")
    assert SECRET not in without


def test_quiet_logs_have_problems_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with configured(monkeypatch, quiet=True) as stream:
        logs.log_request(RECORD)
        logging.getLogger("regard.serving.models").info("ready")
        logging.getLogger("regard.serving.models").warning("the worker of fr-en ended.")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("the worker of fr-en ended.")
