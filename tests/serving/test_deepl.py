"""DeepL's own client, against a real server."""

import itertools
from typing import Any

import deepl
import pytest

from .conftest import Server

FR = "Bonjour tout le monde."
EN = "Hello, everyone."


@pytest.fixture
def client(server: Server) -> deepl.Translator:
    return deepl.Translator("any", server_url=server.url)


def test_texts_are_translated_and_counted(client: deepl.Translator) -> None:
    before = client.get_usage().character.count or 0
    first, second = client.translate_text([FR, "Je suis fatigué."], target_lang="EN-US")
    assert (first.text, first.detected_source_lang) == (EN, "FR")
    assert (first.billed_characters, second.billed_characters) == (22, 16)
    usage = client.get_usage()
    assert usage.character.count == before + 38
    assert not usage.any_limit_reached


@pytest.mark.parametrize("target", ["EN-GB", "EN-US", "en-us"])
def test_variants_are_the_language(client: deepl.Translator, target: str) -> None:
    assert client.translate_text(FR, source_lang="FR", target_lang=target).text == EN


def test_a_text_in_the_target_language_stays_as_it_is(client: deepl.Translator) -> None:
    text = "The animal didn't cross the street because it was too tired."
    result = client.translate_text(text, target_lang="EN-GB")
    assert (result.text, result.detected_source_lang) == (text, "EN")


def test_languages(client: deepl.Translator) -> None:
    assert [language.code for language in client.get_source_languages()] == ["EN", "FR"]
    targets = client.get_target_languages()
    assert [language.code for language in targets] == ["EN-GB", "EN-US", "FR"]
    assert targets[0].name == "English (British)"
    assert not targets[0].supports_formality


@pytest.mark.parametrize("handling", ["html", "xml"])
def test_tags_are_kept(client: deepl.Translator, handling: str) -> None:
    text = "<p>Le <b>chat noir</b> dort.</p>"
    result = client.translate_text(
        text, source_lang="FR", target_lang="EN-GB", tag_handling=handling, outline_detection=True
    )
    assert result.text.startswith("<p>The <b>black cat</b> ")


def test_settings_without_effect_are_accepted(client: deepl.Translator) -> None:
    result = client.translate_text(
        FR,
        source_lang="FR",
        target_lang="EN-GB",
        split_sentences="nonewlines",
        preserve_formatting=True,
        formality="prefer_more",
    )
    assert result.text == EN


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"formality": "more"}, "'formality' not supported"),
        ({"glossary": "abc", "source_lang": "FR"}, "'glossary_id' is not supported: leave it out"),
        ({"context": "about cats"}, "'context' is not supported: leave it out"),
        ({"splitting_tags": ["par"]}, "'splitting_tags' is not supported: leave it out"),
        ({"target_lang": "DE"}, "Value for 'target_lang' not supported"),
        ({"source_lang": "DE"}, "Value for 'source_lang' not supported"),
    ],
)
def test_what_the_models_cannot_do_is_refused(
    client: deepl.Translator, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(deepl.DeepLException, match=f"Bad request, message: .*{problem}"):
        client.translate_text(FR, **{"target_lang": "EN-GB", **settings})


def test_forms_are_read_as_json_is(server: Server) -> None:
    form = {"text": [FR, "Merci."], "target_lang": "EN", "source_lang": "FR"}
    answers = [
        server.client.post("/v2/translate", **{kind: form}).json()["translations"]
        for kind in ("json", "data")
    ]
    assert answers[0] == answers[1]
    assert len(answers[0]) == 2
    one = server.client.post("/v2/translate", data={"text": FR, "target_lang": "en"})
    assert one.json()["translations"][0]["text"] == EN


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"target_lang": "EN"}, "Parameter 'text' not specified."),
        ({"text": ["a"]}, "Parameter 'target_lang' not specified."),
        ({"text": [], "target_lang": "EN"}, "Value for 'text' not supported"),
        ({"text": ["a"] * 51, "target_lang": "EN"}, "at most 50"),
        ([], "the body is no JSON object"),
    ],
)
def test_wrong_bodies_are_refused(server: Server, body: Any, problem: str) -> None:
    answer = server.client.post("/v2/translate", json=body)
    assert answer.status_code == 400
    assert problem in answer.json()["message"]


def test_errors_have_the_shape_of_the_protocol(server: Server) -> None:
    for path, method in itertools.product(("/v2/glossaries", "/v2/usage/x"), ("GET", "POST")):
        answer = server.client.request(method, path)
        assert answer.status_code == 404
        assert list(answer.json()) == ["message"]
