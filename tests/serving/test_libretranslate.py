"""LibreTranslate's clients, against a real server; several translators in place of models."""

import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from fastapi import FastAPI
from fastapi.testclient import TestClient
from libretranslatepy import LibreTranslateAPI
from pydantic import BaseModel
from starlette.datastructures import Headers

from regard.serving.api import libretranslate
from regard.serving.errors import NotFound, TooManyRequests, Unauthorized
from regard.serving.file_results import FileResults
from regard.serving.key_file import add_key
from regard.serving.models import ModelInfo
from regard.serving.settings import ServerSettings
from regard.serving.tasks.base import MAX_TEXTS

from .conftest import Server, serving

FR, EN = "Bonjour tout le monde.", "Hello, everyone."
HTML_FR, HTML_EN = "<p>Le <b>chat</b> dort.</p>", "<p>The <b>cat</b> is sleeping.</p>"
SURE_EN = "The animal didn't cross the street because it was too tired."


def post(server: Server, **fields: Any) -> Any:
    answer = server.client.post("/translate", json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_libretranslatepy(server: Server) -> None:
    client = LibreTranslateAPI(server.url)
    assert client.translate(FR, "fr", "en") == EN
    assert client.translate(FR, "auto", "en") == EN
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["fr"]},
        {"code": "fr", "name": "French", "targets": ["en"]},
    ]
    best, other = client.detect(FR)
    assert best["language"] == "fr"
    assert 100 >= best["confidence"] > other["confidence"] >= 0


def test_deep_translator(server: Server) -> None:
    client = LibreTranslator("fr", "en", custom_url=f"{server.url}/", api_key="any")
    assert client.translate(FR) == EN
    assert client.translate_batch([FR, "Merci."]) == [EN, "Thank you."]
    with pytest.raises(ServerException):
        LibreTranslator("de", "en", custom_url=f"{server.url}/", api_key="any").translate("Hallo")


def test_json_a_form_and_a_query_string_are_one_route(server: Server) -> None:
    fields = {"q": FR, "source": "fr", "target": "en", "format": "text", "alternatives": "1"}
    answers = [
        server.client.post("/translate", json=fields).json(),
        server.client.post("/translate", data=fields).json(),
        server.client.post("/translate", params=fields).json(),
        server.client.post(
            "/translate", files={name: (None, v) for name, v in fields.items()}
        ).json(),
    ]
    assert answers == [answers[0]] * 4
    assert answers[0]["translatedText"] == EN
    assert len(answers[0]["alternatives"]) == 1


def test_a_list_is_answered_with_lists(server: Server) -> None:
    answer = post(server, q=[FR, "", "Merci."], source="auto", target="en", alternatives=2)
    assert answer["translatedText"] == [EN, "", "Thank you."]
    assert [len(own) <= 2 for own in answer["alternatives"]] == [True] * 3
    assert answer["detectedLanguage"][0]["language"] == "fr"
    assert len(answer["detectedLanguage"]) == 3
    one = post(server, q=[FR], source="fr", target="en")
    assert one == {"translatedText": [EN]}
    form = [("q", FR), ("q", "Merci."), ("source", "fr"), ("target", "en")]
    query = httpx.QueryParams(form)
    assert server.client.post("/translate", params=query).json()["translatedText"][0] == EN


def test_markup_is_kept(server: Server) -> None:
    for source in ("fr", "auto"):
        answer = post(server, q=HTML_FR, source=source, target="en", format="html")
        assert answer["translatedText"] == HTML_EN
    both = post(server, q=[HTML_FR, FR], source="fr", target="en", format="html", alternatives=1)
    assert both["translatedText"] == [HTML_EN, EN]


@pytest.mark.parametrize(("source", "target"), [("en", "en"), ("auto", "en"), ("en-US", "EN")])
def test_a_text_in_the_target_language_stays_as_it_is(
    server: Server, source: str, target: str
) -> None:
    assert post(server, q=SURE_EN, source=source, target=target)["translatedText"] == SURE_EN


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": "a"}, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "fr"}, "Invalid request: missing target parameter"),
        ({"q": "a", "source": "xx", "target": "en"}, "xx is not supported"),
        ({"q": "a", "source": "fr", "target": "zz"}, "zz is not supported"),
        ({"q": "a", "source": "fr", "target": "en", "format": "md"}, "md format is not supported"),
        (
            {"q": "a", "source": "fr", "target": "en", "alternatives": "many"},
            "Invalid request: alternatives parameter is not a number",
        ),
        ({"q": 7, "source": "fr", "target": "en"}, "Invalid request: q parameter: "),
        ({"q": ["a"] * (MAX_TEXTS + 1), "source": "fr", "target": "en"}, "Invalid request: q "),
        ([], "Invalid JSON format"),
    ],
)
def test_wrong_requests_are_refused_in_the_words_of_the_protocol(
    server: Server, fields: Any, problem: str
) -> None:
    answer = server.client.post("/translate", json=fields)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(problem)
    assert list(answer.json()) == ["error"]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("application/json", b"{"),
        ("application/json", b'{"q": "\\ud800"}'),
        ("application/json", b"[" * 100_000),
        ("application/x-www-form-urlencoded", b"q=%ff&source=fr&target=en"),
        ("application/x-www-form-urlencoded", b"a&" * 2000),
        ("multipart/form-data", b"--x"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\n--x--"),
        ("text/plain", b"Bonjour"),
    ],
)
@pytest.mark.parametrize("path", ["/translate", "/detect", "/suggest", "/translate_file"])
def test_damaged_bodies_are_refused(server: Server, path: str, kind: str, content: bytes) -> None:
    answer = server.client.post(path, content=content, headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]


def test_a_file_is_translated_and_can_be_downloaded(server: Server) -> None:
    file = ("été.srt", b"1\n00:00:01,000 --> 00:00:02,000\n<i>Bonjour tout le monde.</i>\n")
    fields = {"source": "auto", "target": "en"}
    answer = server.client.post("/translate_file", files={"file": file}, data=fields)
    assert answer.status_code == 200, answer.text
    result = httpx.get(answer.json()["translatedFileUrl"])
    assert result.text == "1\n00:00:01,000 --> 00:00:02,000\n<i>Hello, everyone.</i>\n"
    assert result.headers["content-disposition"] == (
        "attachment; filename*=UTF-8''%C3%A9t%C3%A9_en.srt"
    )
    assert server.client.get("/download_file/..%2f..%2fetc%2fpasswd").status_code == 404


@pytest.mark.parametrize(
    ("file", "fields", "problem"),
    [
        (None, {"source": "fr", "target": "en"}, "missing file"),
        (("a.txt", b"a"), {"target": "en"}, "missing source"),
        (("a.txt", b"a"), {"source": "fr", "target": "zz"}, "zz is not supported"),
        (("a.pdf", b"a"), {"source": "fr", "target": "en"}, "files of this format"),
    ],
)
def test_wrong_files_are_refused(server: Server, file: Any, fields: Any, problem: str) -> None:
    files = {"other": ("x", b"")} if file is None else {"file": file}
    answer = server.client.post("/translate_file", files=files, data=fields)
    assert answer.status_code == 400
    assert problem in answer.json()["error"]


def test_what_a_page_of_libretranslate_asks(server: Server) -> None:
    assert server.client.get("/health").json() == {"status": "ok"}
    settings = server.client.get("/frontend/settings").json()
    assert settings["language"]["target"] == {"code": "en", "name": "English"}
    assert settings["supportedFilesFormat"] == [".txt", ".srt", ".po"]
    assert settings["suggestions"] is False
    suggestion = {"q": "a", "s": "b", "source": "fr", "target": "en"}
    assert server.client.post("/suggest", json=suggestion).json() == {"success": True}


def test_clients_send_their_key_in_a_field(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "somebody")
    with serving(tmp_path / "log", "fr-en", "--keys", tmp_path / "keys") as server:
        assert LibreTranslateAPI(server.url, key).translate(FR, "fr", "en") == EN
        url = f"{server.url}/"
        assert LibreTranslator("fr", "en", custom_url=url, api_key=key).translate(FR) == EN
        with pytest.raises(AuthorizationException):
            LibreTranslator("fr", "en", custom_url=url, api_key="wrong").translate(FR)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            LibreTranslateAPI(server.url).translate(FR, "fr", "en")
        fields = {"source": "fr", "target": "en", "api_key": key}
        files = {"file": ("a.txt", FR.encode())}
        answer = server.client.post("/translate_file", files=files, data=fields)
        assert httpx.get(answer.json()["translatedFileUrl"]).text == EN
        assert server.client.get("/frontend/settings").json()["keyRequired"] is True


@pytest.mark.parametrize(
    ("query", "kind", "body", "key"),
    [
        (b"api_key=k", "", b"", "k"),
        (b"", "application/json; charset=utf-8", b'{"api_key": "k"}', "k"),
        (b"", "application/x-www-form-urlencoded", b"q=a&api_key=k%20", "k "),
        (b"api_key=", "", b"", None),
        (b"api_key=a&api_key=b", "", b"", "a"),
        (b"", "multipart/form-data; boundary=x", b'--x\r\nname="api_key"\r\n\r\nk%20\r\n', "k%20"),
        (b"", "multipart/form-data; boundary=x", b'name="api_key"' * 100_000, None),
        (b"", "application/x-www-form-urlencoded", b"api_key=&" * 100_000, None),
        (b"", "application/x-www-form-urlencoded", b"my_api_key=k", None),
        (b"", "application/json", b'{"api_key": 1}', None),
        (b"", "application/json", b"[1]", None),
        (b"", "application/json", b"{", None),
        (b"", "application/json", b"[" * 100_000, None),
        (b"", "application/x-www-form-urlencoded", b"api_key=%ff", "\ufffd"),
    ],
)
def test_the_key_of_a_request(query: bytes, kind: str, body: bytes, key: str | None) -> None:
    assert libretranslate.api_key(query, Headers({"content-type": kind}), body) == key


def test_errors_have_the_shape_and_the_status_of_the_protocol() -> None:
    assert libretranslate.error_body(TooManyRequests("wait.")) == {"error": "Slowdown: wait"}
    assert libretranslate.STATUSES[Unauthorized.status] == 403


class FakeModels:
    """Translators that write the direction before each text; `detect` finds a code in it."""

    def __init__(self, *directions: tuple[str, str]) -> None:
        self.requests: list[tuple[str, str, int]] = []
        self._infos = [
            ModelInfo(
                f"{source}-{target}", "translation", ("translate", "detect"), ((source, target),)
            )
            for source, target in directions
        ]

    def list(self) -> list[ModelInfo]:
        return self._infos

    async def run(self, name: str, task: str, arguments: BaseModel) -> dict[str, Any]:
        fields = arguments.model_dump()
        self.requests.append((name, task, len(fields["texts"])))
        source = name.partition("-")[0]
        if task == "detect":
            sure = [90.0 if f"[{source}]" in text else 10.0 for text in fields["texts"]]
            return {"languages": [[{"language": source, "confidence": c}] for c in sure]}
        return {
            "translations": [
                {
                    "text": text if fields["source"] == fields["to"] else f"{name}: {text}",
                    "alternatives": [],
                    "source": fields["source"],
                    "source_confidence": 100.0,
                }
                for text in fields["texts"]
            ]
        }


@pytest.fixture
def fake() -> FakeModels:
    return FakeModels(("fr", "en"), ("de", "en"), ("en", "fr"))


@pytest.fixture
def client(fake: FakeModels) -> Iterator[TestClient]:
    app = FastAPI()
    app.include_router(libretranslate.router(fake, ServerSettings(())))  # type: ignore[arg-type]
    with TestClient(app) as client:
        yield client


def test_the_model_follows_from_the_direction(client: TestClient, fake: FakeModels) -> None:
    answer = client.post("/translate", json={"q": "a", "source": "de", "target": "en"})
    assert answer.json() == {"translatedText": "de-en: a"}
    assert fake.requests == [("de-en", "translate", 1)]


def test_texts_of_several_languages_go_to_several_models(
    client: TestClient, fake: FakeModels
) -> None:
    texts = ["[de] a", "[fr] b", "[en] c", "[de] d"]
    answer = client.post("/translate", json={"q": texts, "source": "auto", "target": "en"}).json()
    assert answer["translatedText"] == ["de-en: [de] a", "fr-en: [fr] b", "[en] c", "de-en: [de] d"]
    assert [own["language"] for own in answer["detectedLanguage"]] == ["de", "fr", "en", "de"]
    assert ("de-en", "translate", 2) in fake.requests
    assert client.post("/detect", json={"q": "[de]"}).json()[0] == {
        "confidence": 90.0,
        "language": "de",
    }


def test_a_direction_that_no_model_has_is_refused(client: TestClient) -> None:
    with pytest.raises(Exception, match=r"German \(de\) is not available as a target language"):
        client.post("/translate", json={"q": "a", "source": "fr", "target": "de"})


def test_files_are_kept_within_limits() -> None:
    now = 0.0
    files = FileResults(max_files=2, max_bytes=10, max_seconds=5, clock=lambda: now)
    first = files.add("a", b"123")
    second = files.add("b", b"4567")
    assert files.get(first).content == b"123"
    third = files.add("c", b"890123")
    with pytest.raises(NotFound):
        files.get(first)
    assert files.get(second).content + files.get(third).content == b"4567890123"
    now = 6.0
    with pytest.raises(NotFound):
        files.get(third)
    assert len({first, second, third}) == 3
