"""The application: errors in the shape of each protocol, and clients that hang up."""

import asyncio
from collections.abc import AsyncIterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fastapi import APIRouter, HTTPException
from fastapi.testclient import TestClient
from pydantic import BaseModel

from regard.serving import app as app_module
from regard.serving.app import application, serving_error
from regard.serving.errors import ServingError, TooManyRequests
from regard.serving.hang_ups import CancelHangUps
from regard.serving.settings import ServerSettings

SETTINGS = ServerSettings(runs=())


class Text(BaseModel):
    text: str


def protocol(prefix: str, key: str) -> Any:
    """Return a protocol with routes that fail, whose errors are in a field of its own."""
    routes = APIRouter(prefix=prefix)

    @routes.post("/echo")
    def echo(text: Text) -> str:
        return text.text

    @routes.get("/busy")
    def busy() -> None:
        raise TooManyRequests("wait.", retry_after=1.5)

    @routes.get("/refuse")
    def refuse() -> None:
        raise HTTPException(418, "no coffee")

    @routes.get("/bug")
    def bug() -> None:
        raise KeyError("secret")

    def error_body(error: ServingError) -> dict[str, Any]:
        return {key: error.message, "param": error.param}

    module = ModuleType(prefix, "A protocol.")
    vars(module).update(PREFIXES=(prefix,), router=lambda *_: routes, error_body=error_body)
    return module


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> TestClient:
    protocols = (protocol("/a", "outer"), protocol("/a/b", "inner"))
    monkeypatch.setattr(app_module, "protocols", lambda: protocols)
    app = application(SimpleNamespace(), SETTINGS)  # type: ignore[arg-type]
    return TestClient(app, raise_server_exceptions=False)


def test_errors_have_the_shape_of_the_protocol_with_the_longest_prefix(client) -> None:
    for path, key in (("/a/busy", "outer"), ("/a/b/busy", "inner")):
        answer = client.get(path)
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "2"
        assert answer.json() == {key: "wait.", "param": None}


def test_paths_methods_and_exceptions_have_it_too(client) -> None:
    assert client.get("/a/nothing").json()["outer"] == "Not Found."
    assert client.get("/elsewhere").json() == {"detail": "Not Found."}
    answer = client.get("/a/echo")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert client.get("/a/refuse").json()["outer"] == "no coffee."
    assert client.get("/a/refuse").status_code == 418


def test_invalid_requests_name_the_field_and_not_its_content(client) -> None:
    answer = client.post("/a/echo", json={"text": ["private"]})
    assert answer.status_code == 400
    assert answer.json()["param"] == "text"
    assert answer.json()["outer"].startswith("text: ")
    assert "private" not in answer.text
    damaged = client.post(
        "/a/echo", content=b'{"text": ', headers={"content-type": "application/json"}
    )
    assert "character 10 of the request" in damaged.json()["outer"]


def test_a_bug_is_answered_without_its_message(client) -> None:
    answer = client.get("/a/bug")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["outer"]


def test_every_protocol_has_what_the_application_needs() -> None:
    for module in app_module.protocols():
        assert isinstance(module.PREFIXES, tuple)
        body = module.error_body(serving_error(TooManyRequests("wait.", "model", 2.0)))
        assert "wait" in str(body)


def test_the_code_of_a_client_that_hangs_up_is_canceled() -> None:
    ended: list[str] = []

    async def compute(_: Any, receive: Any, __: Any) -> None:
        while (await receive())["more_body"]:
            pass
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("canceled")
            raise

    async def messages() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "http.request", "body": b"a", "more_body": True}
        yield {"type": "http.request", "body": b"b", "more_body": False}
        yield {"type": "http.disconnect"}

    async def request() -> None:
        incoming = messages()
        async with asyncio.timeout(5):
            await CancelHangUps(compute)({"type": "http"}, incoming.__anext__, None)  # type: ignore[arg-type]

    asyncio.run(request())
    assert ended == ["canceled"]


def test_a_request_that_the_server_cancels_stays_canceled() -> None:
    async def compute(_: Any, receive: Any, __: Any) -> None:
        await receive()
        await asyncio.sleep(30)

    async def request() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.05, task.cancel)
        incoming = asyncio.Queue[dict[str, Any]]()
        incoming.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        await CancelHangUps(compute)({"type": "http"}, incoming.get, None)  # type: ignore[arg-type]

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(request())
