"""The real client of Hugging Face, against a real server."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError, ValidationError

from .conftest import EN, Server

Client = Callable[[str], InferenceClient]


@pytest.fixture
def client(server: Server) -> Client:
    """Return the client of a model."""
    return lambda name: InferenceClient(model=f"{server.url}/models/{name}")


def test_translation(client: Client) -> None:
    translate = client("fr-en").translation
    assert translate("Il pleut.").translation_text == "It's raining."
    assert translate("It's raining.", src_lang="eng_Latn", tgt_lang="fr").translation_text
    settings = {"num_beams": 2}
    assert translate("Il pleut.", generate_parameters=settings).translation_text


def test_summarization(client: Client) -> None:
    summary = client("summaries").summarization(EN, generate_parameters={"max_new_tokens": 3})
    assert isinstance(summary.summary_text, str)


def test_text_generation_with_details(client: Client, server: Server) -> None:
    generate = client("lm").text_generation
    text = generate("the cat", max_new_tokens=8)
    full = generate("the cat", max_new_tokens=8, return_full_text=True)
    assert full == f"the cat{text}"
    output = generate("the cat", max_new_tokens=8, details=True)
    assert output.generated_text == text
    assert output.details.finish_reason in ("length", "eos_token")
    assert output.details.generated_tokens == len(output.details.tokens)
    assert all(token.logprob <= 0 and token.id >= 0 for token in output.details.tokens)
    plain = server.client.post("/models/lm", json={"inputs": ["the cat", "a"]}).json()
    assert len(plain) == 2


def test_text_generation_samples_and_stops(client: Client) -> None:
    generate = client("lm").text_generation
    settings: dict[str, Any] = {"max_new_tokens": 12, "do_sample": True, "seed": 7, "top_k": 20}
    text = generate("the cat", **settings)
    assert generate("the cat", **settings) == text
    stop = text[len(text) // 2 :][:2]
    output = generate("the cat", **settings, stop=[stop], details=True)
    assert output.generated_text == text.partition(stop)[0]
    assert output.details.finish_reason == "stop_sequence"


def test_streamed_text_is_the_text(client: Client) -> None:
    generate = client("lm").text_generation
    text = generate("the cat", max_new_tokens=12)
    assert "".join(generate("the cat", max_new_tokens=12, stream=True)) == text
    *others, last = generate("the cat", max_new_tokens=12, stream=True, details=True)
    assert all(output.generated_text is None and output.details is None for output in others)
    assert last.generated_text == text
    assert last.details.generated_tokens == len([*others, last])
    assert [output.index for output in (*others, last)] == list(range(1, len(others) + 2))


@pytest.mark.parametrize("blank", ["[MASK]", "<mask>", "___"])
def test_fill_mask(client: Client, blank: str) -> None:
    best, *others = client("masked").fill_mask(f"The animal {blank} cross.", top_k=3)
    assert len(others) == 2
    assert best.score >= others[0].score
    assert isinstance(best.token, int)
    assert best.sequence == f"The animal {best.token_str} cross.".replace(" …", "")


def test_fill_mask_of_several_blanks_and_of_spans(client: Client, server: Server) -> None:
    answer = server.client.post("/models/masked", json={"inputs": "___ animal ___"}).json()
    assert [len(candidates) for candidates in answer] == [5, 5]
    assert client("spans").fill_mask("The <extra_0> was tired.", top_k=2)[0].token is None


def test_text_classification(client: Client) -> None:
    labels = client("classifier").text_classification("a good film")
    assert {label.label for label in labels} == {"negative", "positive"}
    assert sum(label.score for label in labels) == pytest.approx(1)
    assert len(client("classifier").text_classification("a", top_k=1)) == 1
    softmax = client("classifier").text_classification("a good film", function_to_apply="softmax")
    assert softmax == labels


def test_zero_shot_classification(client: Client) -> None:
    classify = client("lm").zero_shot_classification
    labels = ["sports", "politics", "science"]
    answer = classify(EN, labels, hypothesis_template="It is about {}.")
    assert {own.label for own in answer} == set(labels)
    assert sum(own.score for own in answer) == pytest.approx(1)
    assert [own.score for own in answer] == sorted((own.score for own in answer), reverse=True)
    by_itself = classify(EN, labels, multi_label=True)
    assert all(0 < own.score < 1 for own in by_itself)
    assert sum(own.score for own in by_itself) != pytest.approx(1)


def test_feature_extraction(client: Client) -> None:
    vectors = client("encoder").feature_extraction([EN, "a cat"])
    assert vectors.shape == (2, 32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    long = client("encoder").feature_extraction(EN, normalize=False)
    assert np.linalg.norm(long) > 1.01
    assert np.allclose(long / np.linalg.norm(long), vectors[:1], atol=1e-5)


def test_the_client_reads_what_a_model_does(server: Server) -> None:
    client = InferenceClient(provider="hf-inference", model=f"{server.url}/models/fr-en")
    assert client.health_check()
    info = client.get_endpoint_info()
    assert info["pipeline_tag"] == "translation"
    assert ["fr", "en"] in info["directions"]
    assert server.client.get("/models/lm").json()["tasks"] == [
        "text-generation",
        "zero-shot-classification",
    ]


def test_the_task_may_be_in_the_path(server: Server) -> None:
    body = {"inputs": EN, "parameters": {"candidate_labels": ["a cat", "a dog"]}}
    answer = server.client.post("/models/lm/zero-shot-classification", json=body)
    assert answer.status_code == 200
    assert server.client.post("/models/lm/fill-mask", json={"inputs": "___"}).status_code == 400
    assert server.client.post("/models/lm/vision", json={"inputs": "a"}).status_code == 404


@pytest.mark.parametrize(
    ("model", "parameters", "problem"),
    [
        ("encoder", {"truncate": True}, "truncate"),
        ("encoder", {"prompt_name": "query"}, "prompt_name is not supported"),
        ("masked", {"targets": ["cat"]}, "targets is not supported"),
        ("classifier", {"function_to_apply": "sigmoid"}, "was trained with softmax"),
        ("fr-en", {"src_lang": "de", "tgt_lang": "en"}, "this model knows en and fr only"),
        ("fr-en", {"truncation": "only_first"}, "truncation"),
        ("lm", {"watermark": True}, "watermark"),
        ("lm", {"grammar": {"type": "json", "value": {}}}, "grammar is not supported"),
        ("lm", {"candidate_labels": ["one"]}, "candidate_labels"),
        ("lm", {"candidate_labels": ["a", "b"], "hypothesis_template": "x"}, "has no {}"),
    ],
)
def test_parameters_without_effect_are_refused(
    server: Server, model: str, parameters: dict[str, Any], problem: str
) -> None:
    body = {"inputs": "The cat ___.", "parameters": parameters}
    answer = server.client.post(f"/models/{model}", json=body)
    assert answer.status_code in (400, 422)
    assert problem in answer.json()["error"]
    assert answer.json()["error_type"] == "validation"


def test_errors_are_those_of_the_client(client: Client) -> None:
    with pytest.raises(ValidationError, match="context"):
        client("lm").text_generation(EN * 50, max_new_tokens=10)
    with pytest.raises(HfHubHTTPError, match="no model of this name"):
        client("nobody").translation("a")
    with pytest.raises(HfHubHTTPError, match="text 1 is empty"):
        client("encoder").feature_extraction("")
