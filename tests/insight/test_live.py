"""The live server: requests of a browser, of a client and of strangers."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import torch
from fastapi.testclient import TestClient

import regard
from regard import run_folder
from regard.config import plain
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.insight.live import MAX_CHARACTERS, application
from regard.insight.look import look
from regard.insight.picture import History
from regard.models.base import ModelSpec
from regard.models.weights import weights_of
from regard.predictors.translator import Translator
from regard.web.addresses import is_loopback

EN, FR = "the cat sleeps under the tree", "le chat dort sous l'arbre"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run folder of an untrained translator."""
    torch.manual_seed(4)
    tokenizer = bpe.Spec(vocabulary=400).train([EN, FR] * 3, ["fr", "en"])
    spec = ModelSpec.model_validate({"kind": "encoder-decoder", "size": "tiny"})
    model = spec.build(len(tokenizer))
    guess = LanguageIdentifier.learn({"fr": [tokenizer.encode(FR)], "en": [tokenizer.encode(EN)]})
    run = run_folder.Run(
        task="translation",
        model=plain(spec),
        vocabulary=len(tokenizer),
        details={"directions": ["fr → en", "en → fr"], "max_length": 30},
        weights=weights_of(model),
        tokenizer=tokenizer.to_json(),
        extra_files={"languages.json": guess.to_json()},
        documents={},
    )
    target = tmp_path_factory.mktemp("live") / "run"
    run_folder.write(run, target)
    return target


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    loaded: Translator = regard.load(folder)
    return loaded


def test_text_is_answered_with_its_picture(translator) -> None:
    client = TestClient(application([("here", translator)]))
    answer = client.post("/look", json={"text": EN, "compare": None, "to": "fr"})
    assert answer.status_code == 200
    assert answer.json() == History.of(look(translator, EN, "fr", "here")).to_json()
    both = client.post("/look", json={"text": EN, "compare": "the cat", "to": "fr"}).json()
    assert [picture["source"] for picture in both["snapshots"][0]["pictures"]] == [EN, "the cat"]


def test_two_models_side_by_side(translator) -> None:
    client = TestClient(application([("one", translator), ("other", translator)]))
    pictures = client.post("/look", json={"text": FR}).json()["snapshots"][0]["pictures"]
    assert [picture["title"] for picture in pictures] == ["one", "other"]


def test_invalid_requests_get_an_error_message(translator) -> None:
    client = TestClient(application([("here", translator)]))
    for text, message in (("the cat " * 40, "at most 30"), ("  ", "no text")):
        answer = client.post("/look", json={"text": text, "to": "fr"})
        assert answer.status_code == 422
        assert message in answer.json()["detail"]
    assert client.post("/look", json={"text": "a" * (MAX_CHARACTERS + 1)}).status_code == 422
    assert client.post("/look", content="text=a").status_code == 415
    assert client.get("/docs").status_code == 404


def test_server_accepts_its_own_host_names_only(translator) -> None:
    app = application([("here", translator)], hosts=("localhost", "127.0.0.1"))
    assert TestClient(app, base_url="http://localhost").get("/").status_code == 200
    assert TestClient(app, base_url="http://evil.example").get("/").status_code == 400
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")


def test_server_process_and_browser(folder, browser) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "regard", "look", str(folder), "--live", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        try:
            address = f"http://127.0.0.1:{port}/"
            for _ in range(300):
                try:
                    assert "connect-src" in httpx.get(address).text
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            else:
                pytest.fail("the server did not answer")
            browser.get(address)
            box = browser.find_element("css selector", "#text")
            box.send_keys("the cat sleeps\n")
            for _ in range(100):
                buttons = browser.find_elements("css selector", "#keys .token")
                tokens = [button.text for button in buttons]
                if tokens:
                    break
                time.sleep(0.1)
            assert "cat" in tokens
        finally:
            server.terminate()
