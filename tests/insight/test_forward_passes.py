"""Every kind of model can be looked into, and what is drawn is what its tensors say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.config import Direction
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.errors import DataError
from regard.insight.downsample import bearable
from regard.insight.forward_passes import reading
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
def test_the_steps_lead_to_the_weights_and_the_output(kind, make, norm_first) -> None:
    loaded, picture = seen_by(kind, make, norm_first=norm_first)
    assert [steps.panel for steps in picture.steps] == [panel.name for panel in picture.panels]
    for steps, panel in zip(picture.steps, picture.panels, strict=True):
        scores = steps.queries @ steps.keys.swapaxes(-2, -1) / np.sqrt(8)
        if panel.causal:
            scores = np.where(np.tril(np.ones(scores.shape[-2:])), scores, -np.inf)
        assert np.allclose(scores, panel.scores, atol=1e-5)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        assert np.allclose(shares / shares.sum(-1, keepdims=True), panel.weights, atol=1e-5)
        assert np.allclose(panel.weights @ steps.values, steps.found, atol=1e-5)
        where = next(part for part in reading(loaded, TEXT).parts if part.name == panel.name)
        for layer, block in enumerate(loaded.model.get_submodule(where.blocks)):
            attention = getattr(block, where.attention)
            x = torch.tensor(steps.entered[layer])
            with torch.no_grad():
                q = attention.w_q(x).view(len(x), 4, 8).transpose(0, 1)
                memory = attention.w_v(torch.tensor(steps.remembered[layer]))
                joined = torch.tensor(steps.found[layer]).transpose(0, 1).flatten(1)
                assert torch.allclose(q, torch.tensor(steps.queries[layer]), atol=1e-4)
                v = memory.view(len(memory), 4, 8).transpose(0, 1)
                assert torch.allclose(v, torch.tensor(steps.values[layer]), atol=1e-4)
                output = attention.w_o(joined)
            assert torch.allclose(output, torch.tensor(steps.output[layer]), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_flows_are_shares_of_the_input(kind, make) -> None:
    _, picture = seen_by(kind, make)
    assert {flow.name for flow in picture.flows} == {"rollout", "gradient"}
    for flow in picture.flows:
        assert np.allclose(flow.weights.sum(-1), 1, atol=1e-4)
        assert (flow.weights >= 0).all()
        panel = picture.panel(flow.panel)
        assert flow.weights.shape == panel.weights[:, 0].shape
        if flow.name == "rollout" and flow.panel != "cross":
            first = (panel.weights[0].mean(0) + np.eye(len(panel.queries))) / 2
            assert np.allclose(flow.weights[0], first, atol=1e-6)
            second = (panel.weights[1].mean(0) + np.eye(len(panel.queries))) / 2
            assert np.allclose(flow.weights[1], second @ first, atol=1e-5)


def test_gradients_follow_what_the_answer_comes_from(make) -> None:
    """A hand-made check: the derivative by finite differences of one weight, through the model."""
    loaded = make("classifier")
    read = reading(loaded, TEXT)
    with watch(read.model, {"weights"}) as seen:
        answer = read.run().sum()
        weights = seen.weights("encoder.blocks.2.attention")
        gradient = torch.autograd.grad(answer, weights)[0]
    module = loaded.model.get_submodule("encoder.blocks.2.attention.attention")
    attend_with_weights, step = module.attend_with_weights, 1e-2

    def nudged(*inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        _, found = attend_with_weights(*inputs)
        found = found.clone()
        found[0, 1, 2, 3] += step
        return found @ inputs[2], found

    module.attend_with_weights = nudged
    with torch.no_grad(), watch(read.model, {"weights"}):
        assert float(read.run().sum() - answer) / step == pytest.approx(
            float(gradient[0, 1, 2, 3]), rel=0.05, abs=1e-4
        )


@pytest.mark.parametrize("kind", ["encoder-decoder", "language-model"])
def test_the_lens_ends_with_what_the_model_says(kind, make) -> None:
    _loaded, picture = seen_by(kind, make, norm_first=True)
    assert picture.lens is not None
    assert picture.lens.layers == ("embedding", "layer 1", "layer 2", "layer 3")
    panel = picture.panel("decoder")
    said = [best[0][0] for best in picture.lens.likeliest[-1]]
    if kind == "language-model":
        assert tuple(said) == panel.predicts
    else:  # greedy: what was said is the likeliest, but for the end that a limit may put there
        assert tuple(said[:-1]) == panel.predicts[:-1]
    for layer in picture.lens.likeliest:
        for best in layer:
            shares = [p for _, p in best]
            assert shares == sorted(shares, reverse=True)
            assert 0 < sum(shares) <= 1.0001


def test_others_say_nothing_next(make) -> None:
    assert seen_by("encoder", make)[1].lens is None
    loaded, picture = seen_by("classifier", make)
    judged = loaded.classify([TEXT])[0]
    assert picture.output == f"{judged.label} ({judged.probability:.0%})"


def test_pieces_know_their_words(make, tokenizer) -> None:
    _, picture = seen_by("encoder-decoder", make)
    panel = picture.panel("encoder")
    words: dict[int, str] = {}
    for piece, number in zip(panel.queries, panel.query_words, strict=True):
        words[number] = words.get(number, "") + piece
    assert list(words.values()) == ["<fr>", *TEXT.split(), "</s>"]
    assert list(words) == list(range(len(words)))
    assert len(tokenizer.encode("unknowable")) > 1


def test_what_cannot_be_is_refused(make) -> None:
    with pytest.raises(DataError, match=r"takes at most 40"):
        look(make("language-model"), TEXT * 20)
    with pytest.raises(DataError, match=r"takes 40"):
        look(make("encoder"), TEXT * 20)
    with pytest.raises(DataError, match="leave out 'to'"):
        look(make("classifier"), TEXT, "fr")


def test_a_picture_too_large_to_bear_is_summarised_and_says_so(make) -> None:
    _, picture = seen_by("encoder-decoder", make)
    numbers = sum(panel.weights.size for panel in picture.panels)
    assert bearable(picture, numbers) is picture
    smaller = bearable(picture, numbers // 3)
    assert sum(panel.weights.size for panel in smaller.panels) <= numbers // 3
    assert "neighbouring words are shown as one" in smaller.notes[-1]
    for panel, whole in zip(smaller.panels, picture.panels, strict=True):
        assert np.allclose(panel.weights.sum(-1), 1, atol=1e-5)
        first = whole.weights[:, :, :2, :2].sum(-1).mean(-1)
        assert np.allclose(panel.weights[:, :, 0, 0], first, atol=1e-6)
        assert panel.queries[0] == " ".join(whole.queries[:2])


def test_a_picture_goes_to_json_and_comes_back(make) -> None:
    _, picture = seen_by("encoder-decoder", make)
    again = Picture.from_json(picture.to_json())
    for one, other in zip(picture.panels, again.panels, strict=True):
        assert np.allclose(one.weights, other.weights, atol=1 / 65535)
        assert (one.queries, one.key_words, one.causal) == (
            other.queries,
            other.key_words,
            other.causal,
        )


def test_a_notebook_shows_it(make) -> None:
    _, picture = seen_by("language-model", make)
    assert picture._repr_html_().startswith("<iframe srcdoc=")
