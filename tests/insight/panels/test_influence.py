"""Pictures of baselines: attention of recurrent models, and gradients of models without it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.config import Direction
from regard.data.tokenizers import word
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.errors import DataError
from regard.insight import look as look_module
from regard.insight.alignment import align
from regard.insight.forward_passes import forward_pass
from regard.insight.look import look
from regard.insight.panels.influence import CAPTION
from regard.insight.picture import Picture
from regard.insight.watch import watch
from regard.models.base import ModelSpec
from regard.predictors.classifier import Classifier
from regard.predictors.generator import TextGenerator
from regard.predictors.translator import Translator

TEXT = "the red cat sleeps well under the old tree and the dog too"
FRENCH = "le chat rouge dort bien"
Show = Callable[..., Any]


def build(kind: str, capability: str, **settings: Any) -> Any:
    tokenizer = word.Spec(vocabulary=300).train([TEXT, FRENCH], ["en", "fr"])
    torch.manual_seed(4)
    spec = ModelSpec.model_validate(
        {"kind": kind, "capability": capability, "dim": 16, "dropout": 0, **settings}
    )
    model: Any = spec.build(len(tokenizer)).eval()
    guess = LanguageIdentifier({"en": {}, "fr": {}})
    ways = [Direction("en", "fr"), Direction("fr", "en")]
    return {
        "seq2seq": lambda: Translator(model, tokenizer, guess, 40, ways),
        "causal-lm": lambda: TextGenerator(model, tokenizer, 40),
        "sequence-classification": lambda: Classifier(model, tokenizer, ["bad", "good"], 40),
    }[capability]()


@pytest.fixture(scope="module")
def translator() -> Translator:
    """Return a translator whose attention is not uniform."""
    loaded = build("recurrent", "seq2seq", layers=2)
    with torch.no_grad():
        loaded.model.decoder.blocks[0].cross.attention.score.v.mul_(20)
    return loaded


def drawn(loaded: Translator) -> Picture:
    with pytest.MonkeyPatch.context() as patch:
        # The output of an untrained model is random: set it.
        patch.setattr(loaded, "translate_ids", lambda _: [loaded.target_ids(FRENCH, "a test")])
        return look(loaded, TEXT, "fr")


def test_calls_of_a_per_token_module_are_one_record(translator: Translator) -> None:
    model: Any = translator.model
    source, target = torch.randint(4, 20, (2, 6)), torch.randint(4, 20, (2, 5))
    source_mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    name = "decoder.blocks.0.cross"
    with torch.no_grad(), watch(model, {"weights", "scores", "keys", "queries"}) as seen:
        model(source, source_mask, target)
    assert seen.names() == [name]
    assert len(seen.calls(name)) == 1
    weights = seen.weights(name)
    assert weights.shape == (2, 1, 5, 6)
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6)
    assert not weights[1, :, :, 4:].any()
    assert torch.allclose(seen.last(name, "scores").softmax(-1), weights, atol=1e-6)
    assert seen.last(name, "queries").size(2) == 5
    assert seen.last(name, "keys").size(2) == 6
    with torch.no_grad(), watch(model, {"weights"}) as steps:
        state = model.start(source, source_mask)
        for at in range(5):
            _, state = model.step(target[:, at], state)
    assert [each.shape for each in steps.calls(name)] == [(2, 1, 1, 6)] * 5
    assert torch.allclose(torch.cat(steps.calls(name), dim=2), weights, atol=1e-6)


def test_recurrent_translator_has_cross_attention_and_rollout(
    translator: Translator,
) -> None:
    picture = drawn(translator)
    assert [panel.name for panel in picture.panels] == ["cross"]
    assert picture.caption.startswith("recurrent-encoder-decoder, 1 layer, 1 head, ")
    assert picture.views["steps"].panels == ()
    assert "logit-lens" not in picture.views
    panel = picture.panel("cross")
    assert panel.weights.std() > 0.01
    source = translator.source_ids(TEXT, "fr", "a test")
    target = [translator.tokenizer.start, *translator.target_ids(FRENCH, "a test")]
    with torch.no_grad(), watch(translator.model) as seen:
        source_mask = torch.ones(1, len(source), dtype=torch.bool)
        translator.model(torch.tensor([source]), source_mask, torch.tensor([target]))
    expected = seen.weights("decoder.blocks.0.cross")[0]
    assert np.allclose(panel.weights[0], expected, atol=1e-6)
    rollout, gradient = picture.views["rollout"].rollouts
    assert np.allclose(rollout.shares, panel.weights[:, 0], atol=1e-6)  # no encoder attention
    assert gradient.shares.any()
    assert gradient.shares.shape == rollout.shares.shape


def test_alignment_needs_cross_attention(translator: Translator) -> None:
    links = align(translator, TEXT, FRENCH, "fr")
    assert [link.target for link in links] == [0, 1, 2, 3, 4]
    without = build("recurrent", "seq2seq", score="none")
    with pytest.raises(DataError, match="has no cross-attention"):
        align(without, TEXT, FRENCH, "fr")


def test_influence_has_the_receptive_field_as_its_support() -> None:
    loaded = build("convolutional", "causal-lm", layers=2, window=3)
    picture = look(loaded, TEXT)
    (panel,) = picture.panels
    assert (panel.name, panel.title) == ("influence", "Influence (gradients)")
    assert CAPTION in picture.caption
    shares, count = panel.weights[0, 0], len(panel.keys)
    back = np.arange(count)[:, None] - np.arange(count)
    assert np.array_equal(shares > 0, (back >= 0) & (back <= 4))
    assert np.allclose(shares.sum(1), 1, atol=1e-5)
    predictions = picture.views["logit-lens"].predictions[-1]
    assert tuple(best[0][0] for best in predictions) == panel.predicts


def test_influence_is_the_norm_of_the_gradient() -> None:
    """Compare with the Jacobian that torch computes by a function of the embeddings."""
    loaded = build("recurrent", "causal-lm", layers=2)
    model, ids = loaded.model, torch.tensor([loaded.encode(TEXT)])
    (panel,) = look(loaded, TEXT).panels
    embed = model.decoder.embedding

    def log_p(vectors: torch.Tensor) -> torch.Tensor:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(embed, "forward", lambda _: vectors)
            return model(ids)[0].log_softmax(-1).amax(-1)

    jacobian: Any = torch.autograd.functional.jacobian(log_p, embed(ids).detach())  # type: ignore[no-untyped-call]
    sizes = jacobian[:, 0].norm(dim=-1)
    assert np.allclose(panel.weights[0, 0], sizes / sizes.sum(1, keepdim=True), atol=1e-5)
    assert panel.causal


@pytest.mark.parametrize("kind", ["convolutional", "recurrent"])
@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_classification_depends_on_every_token(kind: str, pooling: str) -> None:
    loaded = build(kind, "sequence-classification", pooling=pooling)
    picture = look(loaded, TEXT)
    (panel,) = picture.panels
    assert panel.queries == (picture.output,)
    assert panel.weights.shape == (1, 1, 1, len(loaded.encode((TEXT,))))
    assert (panel.weights > 0).all()


def test_translator_without_attention_has_influence_of_both_texts() -> None:
    picture = drawn(build("recurrent", "seq2seq", score="none"))
    target, source = picture.panels
    assert [target.name, source.name] == ["influence-decoder", "influence-cross"]
    assert not np.triu(target.weights[0, 0], 1).any()
    assert (source.weights > 0).all()
    assert source.queries == target.queries == target.keys


def test_too_long_texts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_module, "MAX_TOKENS_OF_INFLUENCE", 5)
    loaded = build("convolutional", "causal-lm")
    with pytest.raises(DataError, match="for up to 5 tokens: give a text shorter than these 13"):
        look(loaded, TEXT)
    assert not any(module._forward_hooks for module in loaded.model.modules())


def test_self_attention_only_models_have_no_step_vectors() -> None:
    for capability, name in (("causal-lm", "decoder"), ("sequence-classification", "encoder")):
        loaded = build("self-attention-only", capability, layers=2)
        picture = look(loaded, TEXT)
        assert [panel.name for panel in picture.panels] == [name]
        assert picture.panels[0].weights.shape[:2] == (2, 1)
        assert picture.views["steps"].panels == ()
        assert len(picture.views["rollout"].rollouts) == 2
        assert forward_pass(loaded, TEXT).run().ndim == 1


def cells(hands: Any, table: str) -> Any:
    return np.array(
        hands.script(
            f"return [...document.querySelectorAll('#{table} tbody tr')].map(row => "
            "[...row.querySelectorAll('td[data-weight]')].map(td => Number(td.dataset.weight)))"
        )
    )


def test_page_of_a_recurrent_translator_shows_its_alignment(
    show: Show, hands: Any, translator: Translator
) -> None:
    picture = drawn(translator)
    show(picture, "#view=alignment")
    assert "alignment" in hands.views()
    assert not {"logit-lens", "steps"} & set(hands.views())
    weights = picture.panel("cross").weights[0, 0]
    assert np.allclose(cells(hands, "alignment"), weights, atol=1e-4)
    assert hands.texts("#alignment tbody th") == [*FRENCH.split(), "</s>"]
    color = hands.script(
        'return getComputedStyle(document.querySelector(\'[data-target="2"][data-from="3"]\'))'
        ".backgroundColor"
    )
    gray = int(color.removeprefix("rgb(").split(",")[0])
    assert gray == pytest.approx(255 * weights[2, 3], abs=1)


def test_page_of_a_convolutional_model_shows_its_receptive_field(show: Show, hands: Any) -> None:
    picture = look(build("convolutional", "causal-lm", layers=2, window=3), TEXT)
    show(picture, "#view=heat-map")
    weights = picture.panel("influence").weights[0, 0]
    shown = cells(hands, "heat-map")
    assert np.allclose(shown, weights, atol=1e-4)
    back = np.subtract.outer(np.arange(len(shown)), np.arange(len(shown)))
    assert (shown[(back < 0) | (back > 4)] == 0).all()
    assert "norm of the gradient" in hands.find("#caption").text
