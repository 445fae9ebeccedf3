"""Forward passes of every kind of model, and the data of the views computed from them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.config import Direction
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.errors import DataError
from regard.insight.downsample import downsample
from regard.insight.forward_passes import forward_pass
from regard.insight.look import look
from regard.insight.picture import Picture
from regard.insight.watch import watch
from regard.models.base import ModelSpec
from regard.predictors.classifier import Classifier
from regard.predictors.embedder import Embedder
from regard.predictors.generator import TextGenerator
from regard.predictors.translator import Translator

TEXT = "the cat sleeps under the trees"
SIZES = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 3, "dropout": 0.0, "max_length": 40}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return bpe.Spec(vocabulary=300).train([TEXT, "le chat dort sous les arbres"] * 3, ["fr", "en"])


@pytest.fixture(scope="module")
def make(tokenizer) -> Callable[..., Any]:
    def build(kind: str, **settings: object) -> Any:
        torch.manual_seed(7)
        spec = ModelSpec.model_validate({"kind": kind, **SIZES, **settings})
        model = spec.build(len(tokenizer)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        ways = [Direction("en", "fr"), Direction("fr", "en")]
        guess = LanguageIdentifier({"fr": {}, "en": {}})
        return {
            "encoder-decoder": lambda: Translator(model, tokenizer, guess, 40, ways),
            "language-model": lambda: TextGenerator(model, tokenizer, 40),
            "classifier": lambda: Classifier(model, tokenizer, ["bad", "good"], 40),
            "encoder": lambda: Embedder(model, tokenizer, 40),
        }[kind]()

    return build


KINDS = ("encoder-decoder", "language-model", "classifier", "encoder")


def seen_by(kind: str, make: Callable[..., Any], **settings: object) -> tuple[Any, Picture]:
    loaded = make(kind, **settings)
    return loaded, look(loaded, TEXT, "fr" if kind == "encoder-decoder" else None)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_step_vectors_reproduce_weights_and_output(kind, make, norm_first) -> None:
    loaded, picture = seen_by(kind, make, norm_first=norm_first)
    assert [steps.panel for steps in picture.views["steps"].panels] == [
        panel.name for panel in picture.panels
    ]
    for steps, panel in zip(picture.views["steps"].panels, picture.panels, strict=True):
        scores = steps.queries @ steps.keys.swapaxes(-2, -1) / np.sqrt(8)
        if panel.causal:
            scores = np.where(np.tril(np.ones(scores.shape[-2:])), scores, -np.inf)
        assert np.allclose(scores, panel.scores, atol=1e-5)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        assert np.allclose(shares / shares.sum(-1, keepdims=True), panel.weights, atol=1e-5)
        assert np.allclose(panel.weights @ steps.values, steps.head_outputs, atol=1e-5)
        where = next(site for site in forward_pass(loaded, TEXT).sites if site.name == panel.name)
        for layer, block in enumerate(loaded.model.get_submodule(where.blocks)):
            attention = getattr(block, where.attention)
            x = torch.tensor(steps.inputs[layer])
            with torch.no_grad():
                q = attention.w_q(x).view(len(x), 4, 8).transpose(0, 1)
                memory = attention.w_v(torch.tensor(steps.memory[layer]))
                joined = torch.tensor(steps.head_outputs[layer]).transpose(0, 1).flatten(1)
                assert torch.allclose(q, torch.tensor(steps.queries[layer]), atol=1e-4)
                v = memory.view(len(memory), 4, 8).transpose(0, 1)
                assert torch.allclose(v, torch.tensor(steps.values[layer]), atol=1e-4)
                output = attention.w_o(joined)
            assert torch.allclose(output, torch.tensor(steps.output[layer]), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_rollouts_are_shares_of_the_input(kind, make) -> None:
    _, picture = seen_by(kind, make)
    assert {rollout.method for rollout in picture.views["rollout"].rollouts} == {
        "rollout",
        "gradient",
    }
    for rollout in picture.views["rollout"].rollouts:
        assert np.allclose(rollout.shares.sum(-1), 1, atol=1e-4)
        assert (rollout.shares >= 0).all()
        panel = picture.panel(rollout.panel)
        assert rollout.shares.shape == panel.weights[:, 0].shape
        if rollout.method == "rollout" and rollout.panel != "cross":
            first = (panel.weights[0].mean(0) + np.eye(len(panel.queries))) / 2
            assert np.allclose(rollout.shares[0], first, atol=1e-6)
            second = (panel.weights[1].mean(0) + np.eye(len(panel.queries))) / 2
            assert np.allclose(rollout.shares[1], second @ first, atol=1e-5)


def test_gradient_of_a_weight_equals_finite_differences(make) -> None:
    """Nudge one attention weight and compare the change of the output with its gradient."""
    loaded = make("classifier")
    run = forward_pass(loaded, TEXT)
    with watch(run.model, {"weights"}) as seen:
        log_prob = run.run().sum()
        weights = seen.weights("encoder.blocks.2.attention")
        gradient = torch.autograd.grad(log_prob, weights)[0]
    module = loaded.model.get_submodule("encoder.blocks.2.attention.attention")
    attend_with_weights, step = module.attend_with_weights, 1e-2

    def nudged(*inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        _, weights = attend_with_weights(*inputs)
        weights = weights.clone()
        weights[0, 1, 2, 3] += step
        return weights @ inputs[2], weights

    module.attend_with_weights = nudged
    with torch.no_grad(), watch(run.model, {"weights"}):
        assert float(run.run().sum() - log_prob) / step == pytest.approx(
            float(gradient[0, 1, 2, 3]), rel=0.05, abs=1e-4
        )


@pytest.mark.parametrize("kind", ["encoder-decoder", "language-model"])
def test_logit_lens_of_the_last_layer_is_the_prediction(kind, make) -> None:
    _loaded, picture = seen_by(kind, make, norm_first=True)
    lens = picture.views["logit-lens"]
    assert lens.layers == ("embedding", "layer 1", "layer 2", "layer 3")
    panel = picture.panel("decoder")
    predicted = [best[0][0] for best in lens.predictions[-1]]
    if kind == "language-model":
        assert tuple(predicted) == panel.predicts
    else:  # greedy output has the best tokens, but for an end forced by the length limit
        assert tuple(predicted[:-1]) == panel.predicts[:-1]
    for layer in lens.predictions:
        for best in layer:
            shares = [p for _, p in best]
            assert shares == sorted(shares, reverse=True)
            assert 0 < sum(shares) <= 1.0001


def test_encoders_have_no_logit_lens(make) -> None:
    assert "logit-lens" not in seen_by("encoder", make)[1].views
    loaded, picture = seen_by("classifier", make)
    prediction = loaded.classify([TEXT])[0]
    assert picture.output == f"{prediction.label} ({prediction.probability:.0%})"


def test_tokens_have_the_index_of_their_word(make, tokenizer) -> None:
    _, picture = seen_by("encoder-decoder", make)
    panel = picture.panel("encoder")
    words: dict[int, str] = {}
    for token, number in zip(panel.queries, panel.query_words, strict=True):
        words[number] = words.get(number, "") + token
    assert list(words.values()) == ["<fr>", *TEXT.split(), "</s>"]
    assert list(words) == list(range(len(words)))
    assert len(tokenizer.encode("unknowable")) > 1


def test_too_long_texts_and_languages_of_classifiers_are_refused(make) -> None:
    with pytest.raises(DataError, match=r"takes at most 40"):
        look(make("language-model"), TEXT * 20)
    with pytest.raises(DataError, match=r"takes 40"):
        look(make("encoder"), TEXT * 20)
    with pytest.raises(DataError, match="leave out 'to'"):
        look(make("classifier"), TEXT, "fr")


def test_large_pictures_are_downsampled_with_a_note(make) -> None:
    _, picture = seen_by("encoder-decoder", make)
    numbers = sum(panel.weights.size for panel in picture.panels)
    assert downsample(picture, numbers) is picture
    smaller = downsample(picture, numbers // 3)
    assert sum(panel.weights.size for panel in smaller.panels) <= numbers // 3
    assert "neighboring tokens" in smaller.notes[-1]
    assert list(smaller.views) == ["entropy"]
    for panel, whole in zip(smaller.panels, picture.panels, strict=True):
        assert np.allclose(panel.weights.sum(-1), 1, atol=1e-5)
        first = whole.weights[:, :, :2, :2].sum(-1).mean(-1)
        assert np.allclose(panel.weights[:, :, 0, 0], first, atol=1e-6)
        assert panel.queries[0] == " ".join(whole.queries[:2])


def test_pictures_survive_json(make) -> None:
    _, picture = seen_by("encoder-decoder", make)
    again = Picture.from_json(picture.to_json())
    for one, other in zip(picture.panels, again.panels, strict=True):
        assert np.allclose(one.weights, other.weights, atol=1 / 65535)
        assert (one.queries, one.key_words, one.causal) == (
            other.queries,
            other.key_words,
            other.causal,
        )


def test_notebooks_show_the_page(make) -> None:
    _, picture = seen_by("language-model", make)
    assert picture._repr_html_().startswith("<iframe srcdoc=")
