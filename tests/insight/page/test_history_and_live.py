"""Pages whose picture changes: a history of snapshots, and a live page with its server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlparse

import numpy as np
import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.support.ui import WebDriverWait

from regard.insight.page import render
from regard.insight.panels.base import Panel
from regard.insight.picture import History, Picture, Snapshot

Show = Callable[..., Chrome]
WORDS = ("one", "two", "three")
UNLIKE = (
    "Unlike the training text: 5.2 tokens a word, where the training text has 1.3. This model has "
    "seen only en and fr text like its training text."
)


def snapshot_of(make_attention: Callable[..., Any], number: int) -> Snapshot:
    panel = Panel("p", "Panel", WORDS, WORDS, make_attention(number, 2, 2, 3, 3))
    return Snapshot(
        f"step {100 * number}", (Picture("run", f"at {number}", "one two", "", (panel,)),)
    )


@pytest.fixture
def recorded(make_attention: Callable[..., Any]) -> History:
    return History(tuple(snapshot_of(make_attention, number) for number in range(4)))


def heat_map(hands: Any) -> Any:
    return np.reshape(hands.numbers("#heat-map td", "weight"), (3, 3))


# ------------------------------------------------------------ a history


def test_history_is_stepped_through_and_choices_stay(
    show: Show, hands: Any, recorded: History
) -> None:
    browser = show(recorded, "#layer=1&map=2&pin=query-3&snapshot=2")

    def check(number: int) -> None:
        panel = recorded.snapshots[number].pictures[0].panels[0]
        np.testing.assert_allclose(heat_map(hands), panel.weights[0, 1], atol=6e-5)
        assert hands.find("#history-title").text == f"step {100 * number}"
        assert hands.find('button[data-query="2"]').get_attribute("aria-pressed") == "true"
        assert f"snapshot={number + 1}" in browser.current_url
        assert hands.find("#caption").text == f"at {number}"

    hands.find("#history-next").click()
    check(2)
    hands.find("#history-back").click()
    check(1)
    hands.focus("#history-slider")
    hands.press(Keys.END)
    check(3)
    assert hands.find("#history-slider").get_attribute("aria-valuetext") == "step 300"
    assert not hands.find("#history-next").is_enabled()


def test_history_plays_to_its_end_and_can_be_paused(
    show: Show, hands: Any, recorded: History
) -> None:
    browser = show(recorded)
    assert hands.find("#history-title").text == "step 0"
    # Pause in the browser as soon as the snapshot changes: a busy machine may be slow to click.
    label, here = browser.execute_async_script(
        "const [title, play] = ['history-title', 'history-play'].map(id => "
        "document.getElementById(id)); const done = arguments[0]; play.click(); "
        "const label = play.textContent; new MutationObserver((_, observer) => { "
        "observer.disconnect(); play.click(); done([label, title.textContent]); })"
        ".observe(title, {childList: true, characterData: true, subtree: true});"
    )
    assert (label, here) == ("Pause", "step 100")
    time.sleep(0.9)
    assert hands.find("#history-title").text == here
    hands.find("#history-play").click()
    WebDriverWait(browser, 10).until(lambda _: hands.find("#history-title").text == "step 300")
    assert hands.find("#history-play").text == "Play"


def test_history_does_not_play_with_reduced_motion(
    show: Show, hands: Any, browser: Chrome, emulated: Callable[..., None], recorded: History
) -> None:
    emulated(browser, motion="reduce")
    show(recorded)
    assert not hands.find("#history-play").is_displayed()
    hands.find("#history-next").click()
    assert hands.find("#history-title").text == "step 100"


def test_single_snapshot_has_no_player(show: Show, hands: Any, picture: Picture) -> None:
    show(picture)
    assert not hands.find("#history").is_displayed()


# ------------------------------------------------------------ a live page


class Server:
    """Serve a live page with answers of the test, and record the requests."""

    def __init__(self, answer: Callable[[dict[str, Any]], tuple[int, Any]]) -> None:
        self.requests: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(200, render.render(History(()), live=True).encode(), "text/html")

            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append({"path": self.path, **question})
                if question["text"] == "gone":
                    # No response, on any connection.
                    self.close_connection = True
                    return
                code, content = answer(question)
                self.reply(code, json.dumps(content).encode(), "application/json")

            def reply(self, code: int, content: bytes, kind: str) -> None:
                try:
                    self.send_response(code)
                    self.send_header("Content-Type", f"{kind}; charset=utf-8")
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    pass  # the request was aborted

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def server(rich: Picture) -> Iterator[Server]:
    """Serve the shared picture, with the typed text as its source."""

    def answer(question: dict[str, Any]) -> tuple[int, Any]:
        if question["text"] == "slow":
            time.sleep(1.5)
        if question["text"] == "bad":
            return 422, {"detail": "This text cannot be read."}
        texts = [text for text in (question["text"], question["compare"]) if text]
        pictures = [replace(rich, source=text) for text in texts]
        if question["text"] == "unlike":
            pictures[0] = replace(pictures[0], warnings=(UNLIKE,))
        return 200, History.of(*pictures).to_json()

    served = Server(answer)
    yield served
    served.server.shutdown()
    served.server.server_close()


def sources(hands: Any) -> list[str]:
    found: list[str] = hands.texts("#stories [data-source]")
    return found


@pytest.mark.usefixtures("show")
def test_live_page_shows_the_typed_texts(
    browser: Chrome, hands: Any, server: Server, rich: Picture
) -> None:
    browser.get(server.address)
    wait = WebDriverWait(browser, 10)
    assert not hands.find("#controls").is_displayed()
    assert not hands.find("#empty").is_displayed()
    hands.find("#text").send_keys("first", Keys.ENTER)
    wait.until(lambda _: sources(hands) == ["first"])
    assert server.requests == [{"path": "/look", "text": "first", "compare": None, "to": None}]
    shown = np.reshape(hands.numbers("#heat-map td", "weight"), (6, 6))
    expected = rich.panel("cross").weights[1].mean(axis=0)
    np.testing.assert_allclose(shown, expected, atol=1.1e-4)
    hands.choose("layer", 0)
    hands.find("#compare-toggle").click()
    hands.press("second")
    hands.find("#submit").click()
    wait.until(lambda _: sources(hands) == ["first", "second"])
    assert server.requests[1]["compare"] == "second"
    # Choices stay, and the address restores them.
    assert hands.find('label[data-layer="0"] input').is_selected()
    kept = parse_qs(urlparse(browser.current_url).fragment)
    assert (kept["text"], kept["compare"], kept["layer"]) == (["first"], ["second"], ["1"])
    browser.refresh()
    wait.until(lambda _: sources(hands) == ["first", "second"])
    assert hands.find('label[data-layer="0"] input').is_selected()
    hands.find("#compare-toggle").click()
    hands.find("#submit").click()
    wait.until(lambda _: sources(hands) == ["first"])


@pytest.mark.usefixtures("show")
def test_live_page_follows_its_address(browser: Chrome, hands: Any, server: Server) -> None:
    browser.get(f"{server.address}#view=logit-lens&text={quote('a & b')}")
    WebDriverWait(browser, 10).until(lambda _: sources(hands) == ["a & b"])
    assert hands.find("#logit-lens-card").is_displayed()


@pytest.mark.usefixtures("show")
def test_error_messages_of_the_server_are_shown(
    browser: Chrome, hands: Any, server: Server
) -> None:
    browser.get(server.address)
    hands.find("#submit").click()
    assert hands.status() == "Type a text first."
    hands.find("#text").send_keys("bad", Keys.ENTER)
    wait = WebDriverWait(browser, 10)
    wait.until(lambda _: hands.status() == "This text cannot be read.")
    hands.find("#text").clear()
    hands.find("#text").send_keys("gone", Keys.ENTER)
    wait.until(lambda _: hands.status() == "The server does not answer.")
    # The console has a message for each of them.
    assert len(browser.get_log("browser")) == 2  # type: ignore[no-untyped-call]


@pytest.mark.usefixtures("show")
def test_text_is_shown_as_it_is_typed(browser: Chrome, hands: Any, server: Server) -> None:
    browser.get(server.address)
    wait = WebDriverWait(browser, 10)
    hands.find("#text").send_keys("fir")
    hands.find("#text").send_keys("st")
    wait.until(lambda _: sources(hands) == ["first"])
    assert [request["text"] for request in server.requests][-1] == "first"
    assert "f" not in [request["text"] for request in server.requests]
    hands.choose("view", "all-heads")
    # An error replaces the picture of the earlier text; the next text has the earlier choices.
    hands.find("#text").clear()
    hands.find("#text").send_keys("bad")
    wait.until(lambda _: hands.find("#problem").is_displayed())
    assert hands.find("#problem").text == "This text cannot be read."
    assert sources(hands) == []
    assert not hands.find("#columns").is_displayed()
    assert hands.all("#columns .card") == []
    hands.find("#text").clear()
    hands.find("#text").send_keys("good")
    wait.until(lambda _: sources(hands) == ["good"])
    assert not hands.find("#problem").is_displayed()
    assert hands.find("#all-heads-card").is_displayed()
    assert len(browser.get_log("browser")) == 1  # type: ignore[no-untyped-call]


def test_warnings_stand_above_the_picture(show: Show, hands: Any, rich: Picture) -> None:
    show(replace(rich, warnings=("Unlike the training text: “ß”.",)))
    assert hands.find("#warnings").text == "Unlike the training text: “ß”."
    assert hands.contrast("#warnings") >= 4.5
    show(rich)
    assert not hands.find("#warnings").is_displayed()


@pytest.mark.usefixtures("show")
def test_the_picture_comes_early_on_a_phone_with_a_warning(
    browser: Chrome, hands: Any, server: Server, emulated: Callable[..., None]
) -> None:
    emulated(browser, width=390, height=844)
    browser.get(server.address)
    hands.find("#text").send_keys("unlike", Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda _: hands.find("#warnings").is_displayed())
    assert hands.find("#warnings").text == UNLIKE
    assert 0 < hands.find("#lines-card svg").rect["y"] < 700
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


@pytest.mark.usefixtures("show")
def test_new_text_aborts_the_earlier_request(browser: Chrome, hands: Any, server: Server) -> None:
    browser.get(server.address)
    hands.find("#text").send_keys("slow", Keys.ENTER)
    assert hands.status() == "Running the model…"
    hands.find("#text").send_keys("er", Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda _: sources(hands) == ["slower"])
    time.sleep(1.6)
    assert sources(hands) == ["slower"]


def test_only_a_live_page_may_connect_and_only_to_its_server(picture: Picture) -> None:
    assert "connect-src" not in render.render(History.of(picture))
    assert "connect-src 'self';" in render.render(History.of(picture), live=True)
