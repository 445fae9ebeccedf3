"""The page for people, in Chromium and against a real server process."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

import regard
from regard.insight.alignment import word_weights
from regard.serving.key_file import add_key

from ..browser import Hands, chromium, emulate
from .conftest import Server, serving, wait_until

FRENCH = "Hier, nous avons mangé du poisson avec nos amis à Paris."
SUBTITLES = """1
00:00:01,000 --> 00:00:02,500
Bonjour, mon ami.

2
00:00:03,000 --> 00:00:04,000 X1:40 X2:600
<i>Le chat dort.</i>
"""
TYPE = """const [box, text] = [document.querySelector(arguments[0]), arguments[1]];
box.value = text;
box.dispatchEvent(new Event("input"));"""
TABS = ["translate", "summarize", "write", "fill", "classify"]
LOCAL_SCHEMES = ("about", "blob", "chrome", "data")
MINIMUM_CONTRAST = 4.5  # WCAG 2.1, level AA
TEXTS = "h1, h2, p, span, button, a, label, select, summary, textarea, small, div.result, dt, dd"


class PageHands(Hands):
    """Hands that know the controls of the page."""

    def open(self, url: str, tab: str = "translate") -> None:
        self.browser.get("about:blank")
        self.browser.get(f"{url}/#{tab}")
        self.await_script(f"return document.querySelector('#{tab}:not([hidden])')")

    def await_script(self, text: str, *arguments: object) -> Any:
        wait_until(lambda: self.script(text, *arguments))
        return self.script(text, *arguments)

    def await_text(self, selector: str, text: str) -> None:
        """Wait until an element has a text."""
        wait_until(lambda: self.texts(selector) == [text])

    def await_any(self, selector: str) -> None:
        """Wait until there is a visible element."""
        wait_until(lambda: any(one.is_displayed() for one in self.all(selector)))

    def type(self, selector: str, text: str) -> None:
        self.find(selector).send_keys(text)

    def lit(self, side: str, light: str) -> list[str]:
        """Return the words of a side that are lit in some way."""
        return self.texts(f"{side} [data-light='{light}']")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Start one Chromium for the file."""
    with chromium(tmp_path_factory.mktemp("chromium"), "browser", "performance") as chrome:
        yield chrome


@pytest.fixture
def hands(browser: webdriver.Chrome, server: Server) -> Iterator[PageHands]:
    """Return hands whose page must not log anything, nor load anything from elsewhere."""
    emulate(browser)
    browser.get(f"{server.url}/favicon.ico")  # a page of the same origin
    browser.execute_script("localStorage.clear(); sessionStorage.clear();")
    browser.get_log("browser")  # type: ignore[no-untyped-call]
    yield PageHands(browser)
    logged = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert [entry for entry in logged if "401" not in entry["message"]] == []
    assert requested_hosts(browser) <= {"127.0.0.1"}


def messages(browser: webdriver.Chrome, method: str) -> list[Any]:
    """Return the messages of one kind that the browser has logged since the last call."""
    entries = browser.get_log("performance")  # type: ignore[no-untyped-call]
    logged = [json.loads(entry["message"])["message"] for entry in entries]
    return [message["params"] for message in logged if message["method"] == method]


def requested_hosts(browser: webdriver.Chrome) -> set[str | None]:
    """Return the hosts of all requests since the last call."""
    sent = messages(browser, "Network.requestWillBeSent")
    addresses = [urlparse(params["request"]["url"]) for params in sent]
    return {address.hostname for address in addresses if address.scheme not in LOCAL_SCHEMES}


def run_task(server: Server, task: str, model: str, arguments: Mapping[str, Any]) -> Any:
    """Return the result of a task by the API of the page."""
    response = server.client.post(f"/regard/{task}/{model}", json=arguments)
    assert response.status_code == 200, response.text
    *_, last = [line for line in response.text.split("\n\n") if line]
    return json.loads(last.removeprefix("data: "))["result"]


def translate(server: Server, text: str, **more: Any) -> Any:
    (translation,) = run_task(server, "translate", "fr-en", {"texts": [text], **more})[
        "translations"
    ]
    return translation


# ---------------------------------------------------------------- translate


def test_text_is_translated_as_it_is_typed(hands: PageHands, server: Server) -> None:
    hands.open(server.url)
    assert hands.find("#source") == hands.browser.switch_to.active_element
    hands.type("#source", FRENCH)
    hands.await_text("#target", translate(server, FRENCH, to="en")["text"])
    assert hands.find("#source-language option:checked").text == "French (detected)"
    hands.type("#source", "\nLe chat dort.")
    second = translate(server, "Le chat dort.", to="en")["text"]
    hands.await_text("#target", f"{translate(server, FRENCH, to='en')['text']}\n{second}")
    hands.find("#source-clear").click()
    hands.await_text("#target", "")


def test_typing_on_ends_the_earlier_request(hands: PageHands, server: Server) -> None:
    hands.open(server.url)
    requested_hosts(hands.browser)  # forget the earlier messages
    hands.script(TYPE, "#source", f"{FRENCH} " * 200)
    hands.await_script("return document.querySelector('#target').ariaBusy === 'true'")
    hands.script(TYPE, "#source", FRENCH)
    hands.await_text("#target", translate(server, FRENCH, to="en")["text"])
    ended = messages(hands.browser, "Network.loadingFailed")
    assert ended
    assert all(request["canceled"] for request in ended)


def test_languages_are_swapped(hands: PageHands, server: Server) -> None:
    hands.open(server.url)
    hands.type("#source", FRENCH)
    english = translate(server, FRENCH, to="en")["text"]
    hands.await_text("#target", english)
    hands.find("#swap").click()
    assert hands.find("#source").get_property("value") == english
    hands.await_text("#target", translate(server, english, source="en", to="fr")["text"])


def test_text_in_the_target_language_offers_the_other_one(hands: PageHands, server: Server) -> None:
    hands.open(server.url)
    hands.type("#source", "Yesterday we ate fish with our friends.")
    hands.await_any("#same-language")
    assert hands.texts("#same-language span") == ["The text is English already."]
    hands.find("#same-language button").click()
    hands.await_script(
        "return document.querySelector('#target').textContent.includes('hier')"
        " || document.querySelector('#target').textContent.includes('Hier')"
    )
    assert not hands.find("#same-language").is_displayed()


def test_alternative_takes_the_place_of_the_translation(hands: PageHands, server: Server) -> None:
    hands.open(server.url)
    hands.type("#source", FRENCH)
    hands.find("#alternatives summary").click()
    expected = translate(server, FRENCH, to="en", alternatives=3)
    wait_until(lambda: hands.texts("#alternative-list button") == expected["alternatives"])
    hands.find("#alternative-list button").click()
    hands.await_text("#target", expected["alternatives"][0])
    assert hands.texts("#alternative-list button")[0] == expected["text"]


def test_word_lights_up_the_source_with_the_largest_weight(
    hands: PageHands, server: Server
) -> None:
    hands.open(server.url)
    hands.type("#source", FRENCH)
    hands.await_any("#target [data-part]")
    translator = regard.load("fr-en")
    target = hands.find("#target").text
    weights = word_weights(translator, FRENCH, target, "en")
    sources, targets = FRENCH.split(), target.split()
    for index, row in enumerate(weights):
        hands.hover(f"#target [data-part='{index}']")
        assert hands.lit("#target", "pointed") == [targets[index]]
        assert hands.lit("#source-mirror", "first") == [sources[row.argmax()]]
        assert f"{100 * row.max():.1f} %" in hands.find("#alignment").text
    for index, word in enumerate(sources):  # under the text box
        hands.hover(f"#source-mirror [data-part='{index}']")
        assert hands.lit("#source-mirror", "pointed") == [word]
        first = [targets[i] for i, row in enumerate(weights) if row.argmax() == index]
        assert hands.lit("#target", "first") == first


def test_attention_of_the_translation_is_one_click_away(hands: PageHands, server: Server) -> None:
    """The other page has the API key of the first."""
    hands.open(server.url)
    hands.script("sessionStorage.setItem('regard.key', '\"secret\"')")
    hands.type("#source", "Le chat dort.")
    hands.await_any("#translate-look")
    shown = hands.find("#target").text
    page = hands.browser.current_window_handle
    hands.find("#translate-look").click()
    hands.browser.switch_to.window(hands.browser.window_handles[-1])
    try:
        hands.await_any("[data-output]")
        assert hands.texts("[data-source]") == ["Le chat dort."]
        assert hands.texts("[data-output]") == [shown]
        assert "regard/look/#model=fr-en" in hands.browser.current_url
        (sent,) = (
            params["request"]
            for params in messages(hands.browser, "Network.requestWillBeSent")
            if params["request"]["url"].endswith("/regard/look/look")
        )
        assert sent["headers"]["Authorization"] == "Bearer secret"
    finally:
        hands.browser.close()
        hands.browser.switch_to.window(page)


def test_subtitles_are_translated_with_their_times(
    hands: PageHands, server: Server, tmp_path: Path
) -> None:
    file, downloads = tmp_path / "film.srt", tmp_path / "downloads"
    file.write_text(SUBTITLES)
    hands.browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)}
    )
    hands.open(server.url)
    hands.type("#file", str(file))
    hands.await_any("#file-download")
    assert hands.find("#file-status").text == "2 of 2 texts"
    hands.find("#file-download").click()
    translated = downloads / "film.en.srt"
    wait_until(translated.exists)
    lines = translated.read_text().splitlines()
    assert [lines[n] for n in (0, 1, 3, 4, 5)] == [
        SUBTITLES.splitlines()[n] for n in (0, 1, 3, 4, 5)
    ]
    assert lines[2] == translate(server, "Bonjour, mon ami.", source="fr", to="en")["text"]
    assert lines[6].startswith("<i>")
    assert lines[6].endswith("</i>")


@pytest.mark.parametrize(
    ("name", "size", "sentence"),
    [
        ("film.pdf", 10, "Files of this format are not translated, only .txt, .srt, .po."),
        ("film.srt", 2**22 + 1, "The file is too large; the server takes 4.0 MB."),
    ],
)
def test_file_is_refused_below_it(
    hands: PageHands, server: Server, tmp_path: Path, name: str, size: int, sentence: str
) -> None:
    file = tmp_path / name
    file.write_bytes(b" " * size)
    hands.open(server.url)
    hands.type("#file", str(file))
    hands.await_any("#file-problem")
    assert hands.find("#file-problem").text == sentence
    hands.browser.get_log("browser")  # type: ignore[no-untyped-call]  # Chromium logs the 400


# ---------------------------------------------------------------- write


GREEDY = "document.querySelector('#temperature').value = 0;"


def test_tokens_have_the_probabilities_of_the_api(hands: PageHands, server: Server) -> None:
    arguments = {"prompts": ["The animal"], "max_tokens": 12, "logprobs": 8}
    (choice,) = run_task(server, "generate", "lm", arguments)["choices"]
    hands.open(server.url, "write")
    hands.script(GREEDY + "document.querySelector('#max-tokens').value = 12;")
    hands.type("#prompt", "The animal")
    hands.find("#write-start").click()
    hands.await_script("return !document.querySelector('#write-more').disabled")
    assert hands.find("#written").get_property("textContent") == "The animal" + choice["text"]
    shown = hands.script(
        "return [...document.querySelectorAll('#written .token')].map(e => e.dataset.probability)"
    )
    expected = [math.exp(token["log_prob"]) for token in choice["tokens"]]
    assert [float(probability) for probability in shown] == pytest.approx(expected)
    visible = next(n for n, token in enumerate(choice["tokens"]) if token["text"].strip().isalnum())
    hands.hover(f"#written [data-part='{visible}']")
    hands.await_any("#token-card")
    top = hands.script(
        "return [...document.querySelectorAll('#token-alternatives .bar-row')]"
        ".map(e => Number(e.dataset.probability))"
    )
    assert top == pytest.approx([math.exp(p) for _, p in choice["tokens"][visible]["top"]])


def test_alternative_of_a_token_continues_the_text(hands: PageHands, server: Server) -> None:
    hands.open(server.url, "write")
    hands.script(GREEDY + "document.querySelector('#max-tokens').value = 6;")
    hands.type("#prompt", "The animal")
    hands.find("#write-start").click()
    hands.await_script("return !document.querySelector('#write-more').disabled")
    hands.script("document.querySelector('#written').focus()")
    hands.press(Keys.ARROW_RIGHT)
    hands.await_any("#token-card")
    alternative = hands.all("#token-alternatives button")[1]
    probability = float(alternative.get_attribute("data-probability") or 0)
    alternative.click()
    hands.await_script("return !document.querySelector('#write-more').disabled")
    first = hands.find("#written [data-part='0']")
    assert float(first.get_attribute("data-probability") or 0) == probability
    assert len(hands.all("#written [data-part]")) == 7
    assert not hands.find("#token-card").is_displayed()


def test_writing_streams_and_stops(hands: PageHands, server: Server) -> None:
    """Stop at the third token, as soon as it is there."""
    hands.open(server.url, "write")
    hands.script(
        "const text = document.querySelector('#written');"
        "const stop = document.querySelector('#write-stop');"
        "window.counts = new Set(); new MutationObserver(() => {"
        "const count = text.querySelectorAll('.token').length; window.counts.add(count);"
        "if (count >= 3) stop.click(); }).observe(text, {childList: true});"
        "document.querySelector('#max-tokens').value = 190;"
    )
    hands.type("#prompt", "The" + Keys.CONTROL + Keys.ENTER)
    hands.await_script(
        "return document.querySelector('#write-note').textContent.includes('Stopped')"
    )
    counts = hands.script("return [...window.counts]")
    assert len(counts) > 1
    assert 3 <= max(counts) < 190
    assert not hands.find("#write-stop").is_enabled()


def test_error_is_one_sentence_where_the_user_looks(hands: PageHands, server: Server) -> None:
    hands.open(server.url, "write")
    hands.type("#prompt", "The animal was tired. " * 60)
    hands.find("#write-start").click()
    hands.await_any("#write-problem")
    assert "context is 200 tokens" in hands.find("#write-problem").text
    assert hands.find("#write-start").is_enabled()
    hands.browser.get_log("browser")  # type: ignore[no-untyped-call]  # Chromium logs the 400


# ---------------------------------------------------------------- fill, classify, summarize


def test_blanks_are_filled(hands: PageHands, server: Server) -> None:
    hands.open(server.url, "fill")
    text = "The animal ___ the street."
    hands.type("#blanked", text)
    hands.await_any("#blanks li")
    model = hands.find("#fill-model").get_property("value")
    ((candidates,),) = run_task(server, "fill", model, {"texts": [text], "top": 8})["fills"]
    shown = hands.all("#blanks .bar-row")
    assert [float(one.get_attribute("data-probability") or 0) for one in shown] == pytest.approx(
        [candidate["probability"] for candidate in candidates]
    )
    shown[2].click()
    assert hands.find("#blanked").get_property("value") == candidates[2]["sequence"]
    wait_until(lambda: not hands.all("#blanks li"))


def test_labels_have_bars(hands: PageHands, server: Server) -> None:
    hands.open(server.url, "classify")
    hands.type("#labeled", "The animal was tired.")
    hands.await_any("#labels li")
    (labels,) = run_task(server, "classify", "classifier", {"texts": ["The animal was tired."]})[
        "predictions"
    ]
    assert hands.texts("#labels .bar-name") == [label["label"] for label in labels]
    bar = "return document.querySelector('#labels .bar-row').style.getPropertyValue('--share')"
    assert float(hands.script(bar)) == pytest.approx(labels[0]["probability"])


def test_text_is_summarized(hands: PageHands, server: Server) -> None:
    hands.open(server.url, "summarize")
    hands.type("#long-text", "The animal was tired.")
    expected = run_task(server, "summarize", "summaries", {"texts": ["The animal was tired."]})
    hands.await_text("#summary", expected["summaries"][0]["text"])


# ---------------------------------------------------------------- the whole page


def test_history_is_kept_in_the_browser_and_cleared(hands: PageHands, server: Server) -> None:
    hands.open(server.url)
    hands.type("#source", FRENCH)
    hands.await_any("#translate-look")
    hands.open(server.url, "classify")
    hands.find("#history-open").click()
    assert hands.texts("#entries .entry-input") == [FRENCH]
    hands.find("#entries .entry").click()
    assert hands.find("#source").get_property("value") == FRENCH
    hands.await_text("#target", translate(server, FRENCH, to="en")["text"])
    hands.find("#history-open").click()
    hands.find("#history-clear").click()
    assert hands.texts("#entries li") == []
    assert hands.script("return localStorage.getItem('regard.history')") == "[]"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(hands: PageHands, server: Server, scheme: str) -> None:
    emulate(hands.browser, scheme=scheme)
    hands.open(server.url)
    hands.type("#source", "Le chat dort.")
    hands.await_any("#target [data-part]")
    hands.hover("#target [data-part='1']")
    assert min(hands.contrasts("body", TEXTS)) >= MINIMUM_CONTRAST
    hands.find("#help-open").click()
    assert min(hands.contrasts("#help", TEXTS)) >= MINIMUM_CONTRAST


def test_theme_is_that_of_the_system_until_one_is_chosen(hands: PageHands, server: Server) -> None:
    emulate(hands.browser, scheme="dark")
    hands.open(server.url)
    theme = "return document.documentElement.dataset.theme"
    assert hands.script(theme) == "dark"
    hands.find("#theme").click()
    assert hands.script(theme) == "light"
    hands.open(server.url)
    assert hands.script(theme) == "light"


def test_phone_has_no_horizontal_scrolling(hands: PageHands, server: Server) -> None:
    emulate(hands.browser, 360, 740)
    width = "return document.documentElement.scrollWidth"
    for tab in TABS:
        hands.open(server.url, tab)
        hands.script(TYPE, f"#{tab} textarea", "a" * 80 + " ___")
        assert hands.script(width) == 360, tab
    hands.open(server.url)
    hands.type("#source", f"{FRENCH} {'e' * 80}")
    hands.find("#alternatives summary").click()
    hands.await_any("#alternative-list button")
    assert hands.script(width) == 360


def test_keyboard_is_enough(hands: PageHands, server: Server) -> None:
    hands.open(server.url)
    hands.press("Le chat dort.")  # the text box has the focus
    hands.await_any("#target [data-part]")
    reached = []
    for _ in range(20):
        hands.press(Keys.TAB)
        reached.append(hands.browser.switch_to.active_element.get_attribute("id"))
        if reached[-1] == "target":
            break
    assert reached == ["file-choose", "source-clear", "target-language", "target"]
    hands.press(Keys.ARROW_RIGHT)
    assert hands.lit("#target", "pointed") == [hands.find("#target").text.split()[0]]
    hands.press("?")
    assert hands.find("#help").is_displayed()
    hands.press(Keys.ESCAPE)
    hands.press("3")
    assert hands.find("#write").is_displayed()
    hands.press("/")
    assert hands.browser.switch_to.active_element.get_attribute("id") == "prompt"
    hands.script("document.querySelector('#write-tab').focus()")
    hands.press(Keys.ARROW_RIGHT)
    assert hands.browser.switch_to.active_element.get_attribute("id") == "fill-tab"
    assert hands.find("#fill").is_displayed()


def test_screen_readers_have_names_and_live_results(hands: PageHands, server: Server) -> None:
    hands.open(server.url)
    nameless = hands.script(
        "return [...document.querySelectorAll('button, a, select, textarea, input, dialog, '"
        "+ '[role=group]')]"
        ".filter(e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')"
        " || e.labels?.length || e.textContent.trim())).map(e => e.id)"
    )
    assert nameless == []
    for result in ("target", "written", "blanks", "labels", "summary"):
        assert hands.find(f"#{result}").get_attribute("aria-live") == "polite"


def test_key_is_asked_for_once_and_kept_for_the_tab(hands: PageHands, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "anna")
    with serving(tmp_path / "log", "fr-en", "--keys", tmp_path / "keys") as guarded:
        assert httpx.get(f"{guarded.url}/regard/server").status_code == 401
        hands.browser.get(guarded.url)
        hands.await_any("#key")
        assert hands.texts("#key-reason") == ["This server needs an API key."]
        hands.press("wrong", Keys.ENTER)
        wait_until(lambda: "not valid" in hands.find("#key-reason").text)
        hands.press(key, Keys.ENTER)
        hands.await_any("#translate")
        hands.open(guarded.url)
        hands.type("#source", "Le chat dort.")
        hands.await_any("#target-actions")
        assert key not in guarded.log.read_text()


# ---------------------------------------------------------------- without a browser


def test_page_loads_nothing_but_its_own_files(server: Server) -> None:
    page = server.client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "style=" not in page.text
    again = server.client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert server.client.get("/regard/assets/page.html.txt").status_code == 404
    assert server.client.get("/regard/assets/..%2f__init__.py").status_code == 404


def test_attention_page_allows_its_own_script_only(server: Server) -> None:
    page = server.client.get("/regard/look/")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("translate/none", {"texts": ["a"]}, 404, "there is no model of this name"),
        ("generate/fr-en", {"prompts": ["a"]}, 400, "does not do the task generate"),
        ("look/look", {"model": "a" * 300, "text": "a"}, 404, "there is no model of this name"),
        ("translate/fr-en", {"texts": "a"}, 400, "texts: Input should be a valid array."),
        ("translate/fr-en", {"texts": ["a"], "to": "xx"}, 422, "does not translate to xx"),
        ("embed/encoder", {"texts": ["a"]}, 404, "there is no such path."),
        ("align/fr-en", {"pairs": [["a", "b " * 300]], "to": "en"}, 422, "the translation has"),
        ("documents/fr-en?name=a.srt&to=en", None, 200, "result"),
    ],
)
def test_requests_of_the_page_are_checked(
    server: Server, path: str, body: Any, status: int, message: str
) -> None:
    response = server.client.post(f"/regard/{path}", **({"json": body} if body else {}))
    assert response.status_code == status
    assert message in response.text
