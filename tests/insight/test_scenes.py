"""Pages whose picture changes: a film of scenes, and a live page that asks its server."""

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
from regard.insight.picture import Film, Panel, Picture, Scene, film

Show = Callable[..., Chrome]
WORDS = ("one", "two", "three")


def scene_of(make_attention: Callable[..., Any], number: int) -> Scene:
    panel = Panel("p", "Panel", WORDS, WORDS, make_attention(number, 2, 2, 3, 3))
    return Scene(f"step {100 * number}", (Picture("run", f"at {number}", "one two", "", (panel,)),))


@pytest.fixture
def reel(make_attention: Callable[..., Any]) -> Film:
    return Film(tuple(scene_of(make_attention, number) for number in range(4)))


def heat_map(hands: Any) -> Any:
    return np.reshape(hands.numbers("#map td", "weight"), (3, 3))


# ------------------------------------------------------------ a film


def test_a_film_is_stepped_through_and_choices_stay(show: Show, hands: Any, reel: Film) -> None:
    browser = show(reel, "#layer=1&map=2&pin=query-3&scene=2")

    def check(number: int) -> None:
        panel = reel.scenes[number].pictures[0].panels[0]
        np.testing.assert_allclose(heat_map(hands), panel.weights[0, 1], atol=6e-5)
        assert hands.find("#film-title").text == f"step {100 * number}"
        assert hands.find('button[data-query="2"]').get_attribute("aria-pressed") == "true"
        assert f"scene={number + 1}" in browser.current_url
        assert hands.find("#caption").text == f"at {number}"

    hands.find("#film-next").click()
    check(2)
    hands.find("#film-back").click()
    check(1)
    hands.focus("#film-slider")
    hands.press(Keys.END)
    check(3)
    assert hands.find("#film-slider").get_attribute("aria-valuetext") == "step 300"
    assert not hands.find("#film-next").is_enabled()


def test_a_film_plays_to_its_end_and_can_be_paused(show: Show, hands: Any, reel: Film) -> None:
    browser = show(reel)
    assert hands.find("#film-title").text == "step 0"
    hands.find("#film-play").click()
    assert hands.find("#film-play").text == "Pause"
    WebDriverWait(browser, 10).until(lambda _: hands.find("#film-title").text == "step 100")
    hands.find("#film-play").click()
    here = hands.find("#film-title").text
    time.sleep(0.9)
    assert hands.find("#film-title").text == here
    hands.find("#film-play").click()
    WebDriverWait(browser, 10).until(lambda _: hands.find("#film-title").text == "step 300")
    assert hands.find("#film-play").text == "Play"


def test_a_film_does_not_play_for_those_who_want_no_motion(
    show: Show, hands: Any, browser: Chrome, emulated: Callable[..., None], reel: Film
) -> None:
    emulated(browser, motion="reduce")
    show(reel)
    assert not hands.find("#film-play").is_displayed()
    hands.find("#film-next").click()
    assert hands.find("#film-title").text == "step 100"


def test_one_scene_has_no_player(show: Show, hands: Any, picture: Picture) -> None:
    show(picture)
    assert not hands.find("#film").is_displayed()


# ------------------------------------------------------------ a live page


class Server:
    """Serves a live page; answers as the test says, and remembers what it was asked."""

    def __init__(self, answer: Callable[[dict[str, Any]], tuple[int, Any]]) -> None:
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(200, render.render(Film(()), live=True).encode(), "text/html")

            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append({"path": self.path, **question})
                if question["text"] == "gone":
                    # A browser may have connected ahead: no connection gives an answer.
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
                    pass  # nobody waits for it any more

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def server(rich: Picture) -> Iterator[Server]:
    """Shows the shared picture, with what was typed as its source."""

    def answer(question: dict[str, Any]) -> tuple[int, Any]:
        if question["text"] == "slow":
            time.sleep(1.5)
        if question["text"] == "bad":
            return 422, {"detail": "This text cannot be read."}
        texts = [text for text in (question["text"], question["beside"]) if text]
        return 200, film(*(replace(rich, source=text) for text in texts)).to_json()

    served = Server(answer)
    yield served
    served.server.shutdown()
    served.server.server_close()


def sources(hands: Any) -> list[str]:
    found: list[str] = hands.texts("#stories [data-source]")
    return found


@pytest.mark.usefixtures("show")
def test_a_live_page_looks_at_what_is_typed(
    browser: Chrome, hands: Any, server: Server, rich: Picture
) -> None:
    browser.get(server.address)
    wait = WebDriverWait(browser, 10)
    assert not hands.find("#controls").is_displayed()
    assert not hands.find("#empty").is_displayed()
    hands.find("#text").send_keys("first", Keys.ENTER)
    wait.until(lambda _: sources(hands) == ["first"])
    assert server.asked == [{"path": "/look", "text": "first", "beside": None, "to": None}]
    shown = np.reshape(hands.numbers("#map td", "weight"), (6, 6))
    expected = rich.panel("encoder").weights[1].mean(axis=0)
    np.testing.assert_allclose(shown, expected, atol=1.1e-4)
    hands.choose("layer", 0)
    hands.find("#compare").click()
    hands.press("second")
    hands.find("#look").click()
    wait.until(lambda _: sources(hands) == ["first", "second"])
    assert server.asked[1]["beside"] == "second"
    # What was chosen stays, and the address brings all of it back.
    assert hands.find('label[data-layer="0"] input').is_selected()
    kept = parse_qs(urlparse(browser.current_url).fragment)
    assert (kept["text"], kept["beside"], kept["layer"]) == (["first"], ["second"], ["1"])
    browser.refresh()
    wait.until(lambda _: sources(hands) == ["first", "second"])
    assert hands.find('label[data-layer="0"] input').is_selected()
    hands.find("#compare").click()
    hands.find("#look").click()
    wait.until(lambda _: sources(hands) == ["first"])


@pytest.mark.usefixtures("show")
def test_a_live_page_follows_its_address(browser: Chrome, hands: Any, server: Server) -> None:
    browser.get(f"{server.address}#view=lens&text={quote('a & b')}")
    WebDriverWait(browser, 10).until(lambda _: sources(hands) == ["a & b"])
    assert hands.find("#lens-card").is_displayed()


@pytest.mark.usefixtures("show")
def test_what_the_server_refuses_is_said_in_its_words(
    browser: Chrome, hands: Any, server: Server
) -> None:
    browser.get(server.address)
    hands.find("#look").click()
    assert hands.status() == "There is no text yet."
    hands.find("#text").send_keys("bad", Keys.ENTER)
    wait = WebDriverWait(browser, 10)
    wait.until(lambda _: hands.status() == "This text cannot be read.")
    hands.find("#text").clear()
    hands.find("#text").send_keys("gone", Keys.ENTER)
    wait.until(lambda _: hands.status() == "The server does not answer.")
    # The browser's own complaints about these two answers.
    assert len(browser.get_log("browser")) == 2  # type: ignore[no-untyped-call]


@pytest.mark.usefixtures("show")
def test_typing_again_gives_up_the_earlier_question(
    browser: Chrome, hands: Any, server: Server
) -> None:
    browser.get(server.address)
    hands.find("#text").send_keys("slow", Keys.ENTER)
    assert hands.status() == "Looking…"
    hands.find("#text").send_keys("er", Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda _: sources(hands) == ["slower"])
    time.sleep(1.6)
    assert sources(hands) == ["slower"]


def test_only_a_live_page_may_ask_and_only_its_server(picture: Picture) -> None:
    assert "connect-src" not in render.render(film(picture))
    assert "connect-src 'self';" in render.render(film(picture), live=True)
