"""Who may send requests: names of the server, pages of other sites, API keys."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from regard.errors import ConfigError, DataError
from regard.serving.key_file import KeyFile, add_key, read_keys, remove_key
from regard.serving.metrics import Metrics
from regard.serving.middleware import protected
from regard.serving.middleware.answers import AnswerErrors
from regard.serving.middleware.hosts import CheckHost, CheckOrigin
from regard.serving.middleware.request_ids import RequestIds
from regard.serving.middleware.security_headers import SecurityHeaders
from regard.serving.settings import ServerSettings
from regard.serving.text_limits import MAX_CHARACTERS, check_texts

from .http_in_thread import ask

SECRET = "mnemosyne"  # a word of a user's text


def client(app: ASGIApp) -> TestClient:
    return TestClient(AnswerErrors(app, lambda _, error: JSONResponse(error.message, error.status)))


async def one(_: object) -> JSONResponse:
    return JSONResponse(1)


APP = Starlette(routes=[Route("/", one, methods=["GET", "POST"])])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("localhost.", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("192.0.2.7", 200),  # no name was resolved
        ("translate.example.org", 200),
        ("a.b.internal", 200),
        ("internal", 400),
        ("evil.example", 400),
        ("evil.example:8000", 400),
        ("localhost.evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("evil-translate.example.org", 400),
        ("[evil]", 400),
        ("", 400),
        ("*", 400),
    ],
)
def test_other_names_are_refused(host: str, status: int) -> None:
    """A site whose name was made to resolve to this machine sends its own name."""
    names = ("127.0.0.1", "Translate.example.org", "*.internal")
    answer = client(CheckHost(APP, names)).get("/", headers={"host": host})
    assert answer.status_code == status
    if status == 400:
        assert "--allow-host" in answer.json()


def test_any_name_where_that_is_asked_for() -> None:
    app = client(CheckHost(APP, ("*",)))
    assert app.get("/", headers={"host": "evil.example"}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),  # a program
        ("http://localhost:8000", 200),
        ("https://localhost:8000", 200),  # a proxy added TLS
        ("https://app.example", 200),
        ("http://localhost:3000", 403),
        ("http://app.example", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_pages_of_other_sites_may_not_send(origin: str | None, status: int) -> None:
    app = client(CheckOrigin(APP, ("https://app.example",)))
    headers = {"host": "localhost:8000", **({} if origin is None else {"origin": origin})}
    assert app.post("/", headers=headers).status_code == status
    assert app.get("/", headers=headers).status_code == 200  # without CORS, it is not shown


def test_request_ids_are_repeated_if_they_are_safe() -> None:
    app = TestClient(RequestIds(APP))
    assert (
        app.get("/", headers={"x-request-id": "a-1:b.c_D"}).headers["x-request-id"] == "a-1:b.c_D"
    )
    made = {app.get("/").headers["x-request-id"] for _ in range(20)}
    assert len(made) == 20
    for unsafe in ("a b", "a" * 65, "ä", "", "<script>"):
        answer = app.get("/", headers={"x-request-id": unsafe.encode()})
        assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])


def test_pages_have_a_strict_policy_and_data_do_not_need_it() -> None:
    async def page(_: object) -> HTMLResponse:
        return HTMLResponse("<p>")

    async def own(_: object) -> HTMLResponse:
        return HTMLResponse("<p>", headers={"Content-Security-Policy": "default-src 'self'"})

    routes = [Route("/", one), Route("/page", page), Route("/own", own)]
    app = TestClient(SecurityHeaders(Starlette(routes=routes)))
    headers = app.get("/page").headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert app.get("/own").headers["content-security-policy"] == "default-src 'self'"
    headers = app.get("/").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "content-security-policy" not in headers


def test_pages_of_an_origin_may_send_where_that_is_asked_for(tmp_path: Path) -> None:
    """Refusals too have the headers without which a browser hides them from the page."""
    add_key(tmp_path / "keys", "anna")
    settings = ServerSettings((), keys_file=tmp_path / "keys")
    origin = "https://app.example"
    ask_first = {"origin": origin, "access-control-request-method": "POST"}
    ask_first |= {"access-control-request-headers": "authorization,content-type"}
    app = Starlette(routes=[Route("/translate", one, methods=["POST"])])

    allowed = TestClient(
        protected(app, replace(settings, cors_origins=(origin,)), Metrics()),
        base_url="http://localhost",
    )
    answer = allowed.options("/translate", headers=ask_first)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
    answer = allowed.post("/translate", headers={"origin": origin})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (403, origin)
    assert "access-control-allow-credentials" not in answer.headers
    answer = allowed.options("/translate", headers={**ask_first, "origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers

    refused = TestClient(protected(app, settings, Metrics()), base_url="http://localhost")
    for answer in (
        refused.options("/translate", headers=ask_first),
        refused.post("/translate", headers={"origin": origin}),
    ):
        assert answer.status_code in (401, 403)
        assert not any(name.startswith("access-control") for name in answer.headers)


# A file of keys.


def test_keys_are_stored_as_hashes(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    key, other = add_key(file, "anna"), add_key(file, "bert")
    assert re.fullmatch(r"regard_[\w-]{43}", key)
    assert key not in file.read_text()
    keys = read_keys(file)
    assert (keys.owner(key), keys.owner(other)) == ("anna", "bert")
    for wrong in ("", key[:-1], f"{key}x", "ä", "\udc80", file.read_text().split()[-1]):
        assert keys.owner(wrong) is None
    remove_key(file, "anna")
    assert read_keys(file).owner(key) is None
    assert read_keys(file).owner(other) == "bert"
    assert file.read_text().startswith("# API keys")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"anna\n", ":1: no name and hash"),
        (b"# keys\nanna 123\n", ":2: no name and hash"),
        (b"anna " + b"0" * 64 + b"\nanna " + b"1" * 64, ":2: the name anna occurs twice"),
        (b"\xff", "no file of keys"),
        (b"a" * (1 << 23), "more than"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_keys(file)


def test_names_and_missing_files_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    for name in ("", "a b", "-x", "a\n", "ä", "a" * 65):
        with pytest.raises(ConfigError, match="give a name"):
            add_key(file, name)
    with pytest.raises(DataError, match="cannot be read"):
        read_keys(file)
    add_key(file, "anna")
    with pytest.raises(ConfigError, match="has a key already"):
        add_key(file, "anna")
    with pytest.raises(ConfigError, match="no key of bert"):
        remove_key(file, "bert")


def test_a_file_that_changes_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    key = add_key(file, "anna")
    keys = KeyFile(file)
    other = add_key(file, "bert")
    assert (keys.owner(key), keys.owner(other)) == ("anna", "bert")
    file.write_text("damaged")
    assert keys.owner(key) == "anna"
    file.unlink()
    assert keys.owner(key) == "anna"
    assert caplog.text.count("The keys read before stay valid.") == 2
    file.write_text("")
    assert keys.owner(key) is None


def test_the_command_adds_lists_and_removes(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "regard", "keys", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    code, key = run("add", "keys", "anna")
    assert (code, read_keys(tmp_path / "keys").owner(key.strip())) == (0, "anna")
    assert run("list", "keys") == (0, "anna\n")
    assert run("list", "keys", "anna")[0] == 1
    assert run("add", "keys") == (
        1,
        "regard: `regard keys add` needs the name of the key's owner.\n",
    )
    assert run("remove", "keys", "anna") == (0, "")
    assert run("list", "keys") == (0, "")
    assert run("list", "none")[1].startswith("regard: none: cannot be read")


# A real server with keys.


@dataclass
class Guarded:
    """A server that needs keys, its log, and a valid key."""

    url: str
    log: Path
    keys: Path
    key: str


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    keys, log = folder / "keys", folder / "log"
    key = add_key(keys, "anna")
    command = [sys.executable, "-m", "regard", "serve", "fr-en", "--port", "0"]
    command += ["--keys", str(keys), "--json-logs", "--rate-limit", "1000"]
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        assert process.stdout
        url = process.stdout.readline().split()[0]
        try:
            yield Guarded(url, log, keys, key)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    assert process.returncode == 0


BODY = {"q": f"Bonjour {SECRET} !", "source": "fr", "target": "en"}
DEEPL = {"text": [f"Bonjour {SECRET} !"], "target_lang": "EN"}
CHAT = {"model": "fr-en", "messages": [{"role": "user", "content": f"Bonjour {SECRET} !"}]}


def test_a_key_is_taken_from_where_each_protocol_has_it(guarded: Guarded) -> None:
    key = guarded.key
    with httpx.Client(base_url=guarded.url) as http:
        answers = [
            http.post("/translate", json={**BODY, "api_key": key}),
            http.post("/translate", data={**BODY, "api_key": key}),
            http.post("/translate", params={**BODY, "api_key": key}),
            http.post("/translate", json=BODY, headers={"Authorization": f"Bearer {key}"}),
            http.post("/translate", json=BODY, headers={"X-Api-Key": key}),
            http.post(
                "/v2/translate", json=DEEPL, headers={"Authorization": f"DeepL-Auth-Key {key}"}
            ),
            http.get("/v1/models", headers={"Authorization": f"bearer {key}"}),
            http.get("/metrics", headers={"Authorization": f"Bearer {key}"}),
        ]
    assert [answer.status_code for answer in answers] == [200] * len(answers)


def test_requests_without_a_valid_key_are_refused_in_their_protocol(guarded: Guarded) -> None:
    wrong = "regard_" + "A" * 43
    with httpx.Client(base_url=guarded.url) as http:
        for headers in ({}, {"Authorization": f"Bearer {wrong}"}, {"Authorization": "Basic YTpi"}):
            answer = http.get("/v1/models", headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "API key" in answer.json()["error"]["message"]
            answer = http.post("/v2/translate", json=DEEPL, headers=headers)
            assert (answer.status_code, "API key" in answer.json()["message"]) == (403, True)
        for body in (BODY, {**BODY, "api_key": wrong}, {**BODY, "api_key": ""}):
            answer = http.post("/translate", json=body)
            assert (answer.status_code, "API key" in answer.json()["error"]) == (403, True)
        for path in ("/metrics", "/openapi.json", "/regard/models", "/none"):
            assert http.get(path).status_code == 401
        for path in ("/healthz", "/", "/languages", "/frontend/settings"):
            assert http.get(path).status_code == 200


def test_keys_are_revoked_while_the_server_runs(guarded: Guarded) -> None:
    key = add_key(guarded.keys, "bert")
    headers = {"Authorization": f"Bearer {key}"}
    assert httpx.get(f"{guarded.url}/v1/models", headers=headers).status_code == 200
    remove_key(guarded.keys, "bert")
    assert httpx.get(f"{guarded.url}/v1/models", headers=headers).status_code == 401


def test_the_log_has_requests_but_neither_keys_nor_texts(guarded: Guarded) -> None:
    """Keys and texts came in bodies, in headers and in query strings."""
    httpx.post(f"{guarded.url}/translate", params={**BODY, "api_key": guarded.key})
    httpx.get(f"{guarded.url}/v1/models/{SECRET}?key={guarded.key}")
    for _ in range(100):
        lines = [json.loads(line) for line in guarded.log.read_text().splitlines()]
        if any(line.get("status") == 401 for line in lines[-1:]):
            break
        time.sleep(0.02)
    log = guarded.log.read_text()
    assert guarded.key not in log
    assert guarded.key.removeprefix("regard_") not in log
    assert read_keys(guarded.keys).hashes["anna"].hex() not in log
    assert SECRET not in log
    translated = [line for line in lines if line.get("route") == "/translate"]
    accepted = [line for line in translated if line["status"] == 200]
    assert accepted[0]["client"] == "anna"
    assert accepted[0]["model"] in ("fr-en", "en-fr")
    assert accepted[0]["input_tokens"] > 0
    assert accepted[0]["output_tokens"] > 0


def test_strangers_are_refused_by_the_real_server(guarded: Guarded) -> None:
    port = int(guarded.url.rpartition(":")[2])
    get = b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    status, body = ask(port, get)
    assert (status, "Host" in json.loads(body)["error"]["message"]) == (400, True)
    post = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n"
    status, body = ask(port, post + b"Content-Length: 99\r\n\r\n")  # and no body
    assert (status, "other sites" in json.loads(body)["error"]) == (403, True)
    assert ask(port, b"GET /healthz HTTP/1.1\r\n\r\n")[0] == 400


def test_listening_beyond_this_machine_needs_keys_or_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "regard", "serve", "fr-en", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "--no-auth" in done.stderr
    missing = [*command, "--keys", str(tmp_path / "none")]
    done = subprocess.run(missing, capture_output=True, text=True, timeout=30, env=dict(os.environ))
    assert (done.returncode, "cannot be read" in done.stderr) == (1, True)


def test_texts_that_no_model_reads_are_refused_before_they_cost_memory(server) -> None:
    """8 of 3 MB at once took 450 MB of the worker, for good."""
    long = {"q": "a" * (MAX_CHARACTERS + 1)}
    assert server.client.post("/detect", json=long).status_code == 413
    assert server.client.post("/detect", json={"q": "a " * 50_000}).status_code == 200
    body = {"model": "lm", "prompt": [long["q"]]}
    answer = server.client.post("/v1/completions", json=body)
    assert (answer.status_code, "131,072" in answer.json()["error"]["message"]) == (413, True)
    check_texts({"prompts": [[1, 2]] * 1000, "n": 1, "stop": ["a" * MAX_CHARACTERS, None]})
