"""Every figure of every view, read out of the page and compared with the recorded tensors.

For each kind of model and each view: every panel, the first and the last query, one head and the
mean of all, tokens and words. A new view adds one function to CHECKS; a new kind of model adds one
entry to MODELS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt
import pytest
import torch
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from regard.data.config import Direction
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.insight.forward_passes import ForwardPass, forward_pass
from regard.insight.look import picture_of
from regard.insight.page import render
from regard.insight.panels.base import Panel
from regard.insight.picture import Picture
from regard.insight.seen import Seen
from regard.insight.views.base import all_views
from regard.insight.watch import USUAL, watch
from regard.models.base import ModelSpec
from regard.predictors.classifier import Classifier
from regard.predictors.embedder import Embedder
from regard.predictors.generator import TextGenerator
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.translator import Translator

Array = npt.NDArray[Any]
Merge = Callable[..., Array]

SOURCE = "the cats sleep"
TARGET = "les grands chats dorment bien"  # longer than the source
# Weights are sent in 16 bits and shown with four decimals.
TOLERANCE = 7e-5
LAYER = 0  # with a second layer above it
TRANSFORMER = {"dim": 32, "heads": 4, "ffn_dim": 32, "layers": 2, "dropout": 0.0, "max_length": 80}


# ------------------------------------------------------------ models


def translator(model: Any, tokenizer: Tokenizer) -> Translator:
    guess = LanguageIdentifier({"fr": {}, "en": {}})
    ways = [Direction("en", "fr"), Direction("fr", "en")]
    loaded = Translator(model, tokenizer, guess, 40, ways)
    # The output of an untrained model is random: set it.
    loaded.translate_ids = lambda _: [loaded.target_ids(TARGET, "a test")]
    return loaded


def generator(model: Any, tokenizer: Tokenizer) -> TextGenerator:
    return TextGenerator(model, tokenizer, 80)


def classifier(model: Any, tokenizer: Tokenizer) -> Classifier:
    return Classifier(model, tokenizer, ["bad", "good"], 80)


BASELINE = {"dim": 16, "layers": 2, "dropout": 0.0}
MODELS: dict[str, tuple[dict[str, Any], Callable[[Any, Tokenizer], Any]]] = {
    "encoder-decoder": ({"kind": "encoder-decoder", **TRANSFORMER}, translator),
    "experts": (
        {
            "kind": "language-model",
            **TRANSFORMER,
            "feed_forward": {"kind": "moe", "num_experts": 6},
        },
        generator,
    ),
    "decoder-only": ({"kind": "decoder-only", **TRANSFORMER}, translator),
    "recurrent": ({"kind": "recurrent", "capability": "seq2seq", **BASELINE}, translator),
    "language-model": ({"kind": "language-model", **TRANSFORMER}, generator),
    "encoder": (
        {"kind": "encoder", **TRANSFORMER},
        lambda model, tokenizer: Embedder(model, tokenizer, 80),
    ),
    "masked-lm": (
        {"kind": "masked-lm", **TRANSFORMER},
        lambda model, tokenizer: MaskFiller(model, tokenizer, 80),
    ),
    "classifier": ({"kind": "classifier", **TRANSFORMER}, classifier),
    "pooling": ({"kind": "classifier", **TRANSFORMER, "pooling": "attention"}, classifier),
    "convolutional": ({"kind": "convolutional", "capability": "causal-lm", **BASELINE}, generator),
    "without attention": (
        {"kind": "recurrent", "capability": "seq2seq", "score": "none", **BASELINE},
        translator,
    ),
}


@dataclass(frozen=True)
class Recorded:
    """A forward pass with its tensors, and the page that shows it."""

    run: ForwardPass
    seen: Seen
    log_prob: torch.Tensor
    picture: Picture
    page: Path
    loaded: Any

    def label_probability(self, positions: Sequence[int]) -> float:
        """Return the probability of the predicted label for these tokens of the text alone."""
        ids = self.loaded.encode(SOURCE)
        kept = torch.tensor([[ids[position] for position in positions]])
        with torch.no_grad():
            probs = self.loaded.model(kept, torch.ones_like(kept, dtype=torch.bool)).softmax(-1)
        return float(probs[0, self._label()])

    def label_log_prob(self, pooled: torch.Tensor) -> torch.Tensor:
        return self.loaded.model.output(pooled).log_softmax(-1)[0, self._label()]

    @property
    def states(self) -> torch.Tensor:
        """States of the encoder of a classifier, before they are pooled: (T, D)."""
        ids = torch.tensor([self.loaded.encode(SOURCE)])
        with torch.no_grad():
            return self.loaded.model.encoder(ids, torch.ones_like(ids, dtype=torch.bool))[0]

    def _label(self) -> int:
        return self.loaded.labels.index(self.loaded.classify([SOURCE])[0].label)

    def weights(self, panel: Panel) -> Array:
        """Return the weights that the model computed: (layers, heads, queries, keys)."""
        for site in self.run.sites:
            if site.name == panel.name:
                return self.seen.by_layer(site.blocks, site.attention)
        return panel.weights  # of expert routing and gradients

    @cached_property
    def attention(self) -> list[str]:
        """Names of the panels of attention."""
        sites = self.run.sites
        return [site.name for site in sites if self.seen.has(site.blocks, site.attention)]

    def vectors(self, panel: str, point: str) -> Array:
        [site] = [site for site in self.run.sites if site.name == panel]
        return self.seen.by_layer(site.blocks, site.attention, point)

    def relevance(self, panel: str) -> Array:
        """Return the mean over heads of (∇A ⊙ A)⁺ in each layer: (layers, queries, keys)."""
        [site] = [site for site in self.run.sites if site.name == panel]
        layers = []
        for number, _ in enumerate(self.weights(self.picture.panel(panel))):
            chunks = self.seen.chunks(f"{site.blocks}.{number}.{site.attention}")
            grads = torch.autograd.grad(self.log_prob, chunks, retain_graph=True, allow_unused=True)
            parts = [
                (chunk * (torch.zeros_like(chunk) if grad is None else grad)).clamp(min=0)
                for chunk, grad in zip(chunks, grads, strict=True)
            ]
            layers.append(torch.cat(parts, 2)[0].mean(0).detach().numpy())
        return np.stack(layers)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    # A small vocabulary: some words have several tokens.
    return bpe.Spec(vocabulary=304).train([SOURCE, TARGET], ["fr", "en", "mask"])


@pytest.fixture(scope="module")
def recorded(
    tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Recorded]:
    """Return a function that runs a model and writes its page, once for all views."""
    made: dict[str, Recorded] = {}

    def record(name: str) -> Recorded:
        if name not in made:
            made[name] = run_model(name, tokenizer, tmp_path_factory.mktemp(name) / "page.html")
        return made[name]

    return record


def run_model(name: str, tokenizer: Tokenizer, page: Path) -> Recorded:
    settings, predictor = MODELS[name]
    torch.manual_seed(3)
    model = ModelSpec.model_validate(settings).build(len(tokenizer)).eval()
    with torch.no_grad():  # weights far from uniform
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    loaded = predictor(model, tokenizer)
    run = forward_pass(loaded, SOURCE, "fr" if isinstance(loaded, Translator) else None)
    picture = picture_of(run, SOURCE, name)
    render.write(picture, page)
    with torch.enable_grad(), watch(run.model, {*USUAL, "scores"}) as seen:
        log_prob = run.run().sum()
    return Recorded(run, seen, log_prob, picture, page, loaded)


# ------------------------------------------------------------ choices


@dataclass(frozen=True)
class Choice:
    """One selection of the controls."""

    panel: Panel
    query: int  # token
    heads: tuple[int, ...]
    merged: bool  # into words

    @property
    def address(self) -> dict[str, str]:
        heads = ",".join(str(head + 1) for head in self.heads)
        return {
            "panel": self.panel.name,
            "layer": str(LAYER + 1),
            "heads": heads,
            "map": "mean" if len(self.heads) > 1 else heads,
            "pin": f"query-{self.query + 1}",
            "words": "merged" if self.merged else "",
        }

    def texts(self, side: str) -> list[str]:
        tokens, words = getattr(self.panel, side), self._words(side)
        joined = dict.fromkeys(words, "")
        for token, word in zip(tokens, words, strict=True):
            joined[word] += token
        return list(joined.values())

    @property
    def row(self) -> int:
        """Row of the query, or of its word."""
        return self._words("queries")[self.query]

    def by_word(self, weights: Array, merge: Merge) -> Array:
        """Merge the last two axes (queries, keys) into words where that is chosen."""
        return merge(weights, self._words("queries"), self._words("keys"))

    def _words(self, side: str) -> tuple[int, ...]:
        words = {"queries": self.panel.query_words, "keys": self.panel.key_words}[side]
        tokens = getattr(self.panel, side)
        return words if self.merged and words else tuple(range(len(tokens)))


def choices(panel: Panel, axes: Sequence[str]) -> Iterator[Choice]:
    """Return the combinations of the axes on which a view depends."""
    last, heads = len(panel.queries) - 1, range(panel.heads)
    if "head" in axes:  # of one head at a time
        yield Choice(panel, 0, (0,), merged=False)
        yield Choice(panel, last, (heads[-1],), merged=False)
        return
    queries = (0, last) if "query" in axes else (0,)
    selected = [tuple(heads), (heads[-1],)] if "heads" in axes else [tuple(heads)]
    words = (False, True) if "words" in axes else (False,)
    for query, chosen, merged in product(queries, dict.fromkeys(selected), words):
        yield Choice(panel, query, chosen, merged)


class Page:
    """The page in the browser, and what it is to show."""

    def __init__(self, hands: Any, recorded: Recorded, merge: Merge) -> None:
        self.hands, self.recorded, self.merge = hands, recorded, merge

    def select(self, view: str, choice: Choice | None = None, **own: str) -> None:
        address = {"view": view, **(choice.address if choice else {}), **own}
        self.hands.browser.execute_async_script(
            "const [address, done] = arguments; "
            "addEventListener('hashchange', () => done(), {once: true}); "
            "if (location.hash === address) done(); else location.hash = address;",
            "#" + urlencode(address),
        )

    def weights(self, choice: Choice) -> Array:
        """Return the weights of all heads in the chosen layer, merged as chosen."""
        return choice.by_word(self.recorded.weights(choice.panel)[LAYER], self.merge)

    def numbers(self, selector: str, name: str) -> Array:
        return np.array(self.hands.numbers(selector, name))


# ------------------------------------------------------------ a check for each view


def check_lines(page: Page, choice: Choice) -> None:
    weights = page.weights(choice)
    drawn = page.hands.script(
        "return [...document.querySelectorAll('#threads path')].map(({dataset: d}) => "
        "[d.head, d.query, d.key, d.weight].map(Number))"
    )
    shown = np.zeros_like(weights)
    for head, query, key, weight in drawn:
        shown[int(head), int(query), int(key)] = weight
    expected = np.zeros_like(weights)
    heads = list(choice.heads)
    expected[heads, choice.row] = weights[heads, choice.row]
    close(shown, np.where(np.abs(expected) < 0.01, shown, expected))  # too faint to draw
    assert np.isfinite(shown).all()
    assert (expected[shown > 0] > 0.0099).all()
    behind = page.numbers("#keys button i", "weight").reshape(weights.shape[2], -1).T
    close(behind, weights[:, choice.row])
    assert page.hands.texts("#queries button > .token") == printable(choice.texts("queries"))
    assert page.hands.texts("#keys button > .token") == printable(choice.texts("keys"))
    check_status(page, weights[heads, choice.row].mean(0))


def check_status(page: Page, row: Array) -> None:
    """Compare the three largest weights, which the status line lists for the pinned query."""
    listed = [float(weight) for weight in page.hands.texts("#status b")]
    largest = sorted(row, reverse=True)[: len(listed)]
    assert len(listed) == min(3, np.count_nonzero(row > TOLERANCE)) or min(listed) < TOLERANCE
    close(listed, largest)


def check_heat_map(page: Page, choice: Choice) -> None:
    expected = page.weights(choice)[list(choice.heads)].mean(0)
    close(page.numbers("#heat-map td", "weight").reshape(expected.shape), expected)
    texts = page.hands.texts("#heat-map tbody td")
    written = np.array([float(text or 0) for text in texts]).reshape(expected.shape)
    np.testing.assert_allclose(written, expected, atol=0.0051)
    assert page.hands.texts("#heat-map tbody th .token") == printable(choice.texts("queries"))
    assert page.hands.texts("#heat-map thead th .token") == printable(choice.texts("keys"))
    check_status(page, expected[choice.row])


def check_all_heads(page: Page, choice: Choice) -> None:
    by_token = page.recorded.weights(choice.panel)
    weights = choice.by_word(by_token, page.merge)
    may_attend = choice.panel.may_attend
    mask = np.ones_like(by_token[:, 0]) if may_attend is None else may_attend.astype(float)
    allowed = choice.by_word(mask, page.merge) > 0
    opacity = np.where(allowed[:, None], np.round(255 * weights**0.7), 255)

    def is_painted(_: Chrome) -> bool:
        alphas = page.hands.script(
            "return [...document.querySelectorAll('#all-heads canvas')].map(c => { "
            "const copy = new OffscreenCanvas(c.width, c.height).getContext('2d'); "
            "copy.drawImage(c, 0, 0); const { data } = copy.getImageData(0, 0, c.width, c.height); "
            "return [...Array(c.width * c.height).keys()].map(i => data[4 * i + 3]) })"
        )
        shown = np.array(alphas)
        return shown.size == opacity.size and bool(
            (np.abs(shown.reshape(opacity.shape) - opacity) <= 1).all()
        )

    WebDriverWait(page.hands.browser, 5, 0.05).until(is_painted)


def check_entropy(page: Page, choice: Choice) -> None:
    weights = page.recorded.weights(choice.panel).astype(float)
    entropy = -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(-1).mean(-1)
    close(page.numbers("#entropy td", "bits").reshape(entropy.shape), entropy)


def check_one_head(page: Page, choice: Choice) -> None:
    [head] = choice.heads
    scores = page.recorded.vectors(choice.panel.name, "scores")[LAYER, head, choice.query]
    keys = np.flatnonzero(np.isfinite(scores))
    rows = page.numbers("#one-head tbody tr", "row")
    assert rows.tolist() == keys.tolist()
    values = page.numbers("#one-head tbody td", "value").reshape(len(keys), 4).T
    grown = np.exp(scores[keys] - scores[keys].max())
    weights = page.recorded.weights(choice.panel)[LAYER, head, choice.query, keys]
    for shown, expected in zip(
        values, (scores[keys], grown, grown / grown.sum(), weights), strict=True
    ):
        close(shown, expected, 2e-4)


def check_rollout(page: Page, choice: Choice) -> None:
    for method, shares in rollouts(page.recorded, choice.panel.name).items():
        page.select("rollout", choice, method=method)
        expected = choice.by_word(shares, page.merge)[:, choice.row].T
        close(page.hands.table("rollout"), expected)
        assert page.hands.texts("#rollout tbody th .token") == printable(choice.texts("keys"))
        check_status(page, expected[:, -1])


def rollouts(recorded: Recorded, panel: str) -> dict[str, Array]:
    """Compute the shares of the input tokens by both methods: (layers, queries, input tokens)."""
    means = {
        name: recorded.weights(recorded.picture.panel(name)).mean(1) for name in recorded.attention
    }
    grads = {name: recorded.relevance(name) for name in recorded.attention}
    return {
        "rollout": rolled(means, panel, lambda layer, shares: (shares + layer @ shares) / 2),
        "gradient": rolled(grads, panel, lambda layer, shares: shares + layer @ shares),
    }


def rolled(layers: dict[str, Array], panel: str, mix: Callable[[Array, Array], Array]) -> Array:
    if panel == "cross":
        source = np.eye(layers[panel].shape[2])
        if "encoder" in layers:
            source = rolled(layers, "encoder", mix)[-1]
        return normalized(layers[panel] @ source)
    shares, after = np.eye(layers[panel].shape[1]), []
    for layer in layers[panel]:
        shares = mix(layer, shares)
        after.append(normalized(shares))
    return np.stack(after)


def normalized(rows: Array) -> Array:
    total = rows.sum(-1, keepdims=True)
    shares: Array = rows / np.where(total > 0, total, 1)
    return shares


def check_alignment(page: Page, choice: Choice) -> None:
    weights = page.recorded.weights(choice.panel)[LAYER][list(choice.heads)].mean(0)
    panel = choice.panel
    # A row is the predicted token, which is the query of the next row.
    words = (*panel.query_words[1:], max(panel.query_words) + 1)
    numbers = [sorted(set(words)).index(word) for word in words]
    close(page.hands.table("alignment"), page.merge(weights, numbers, panel.key_words))


def check_logit_lens(page: Page, _: Choice) -> None:
    run, seen = page.recorded.run, page.recorded.seen
    decoder: Any = run.model.get_submodule(run.decoder)
    names = ["embedding", *(f"blocks.{layer}" for layer, _ in enumerate(decoder.blocks))]
    best = []
    for name in names:
        states = seen.last(f"{run.decoder}.{name}", "residual")[0]
        best.append(decoder.output(decoder.norm(states)).softmax(-1).detach().max(-1))
    shown = page.numbers("#logit-lens td", "weight").reshape(len(names), -1)
    close(shown, np.stack([layer.values.numpy() for layer in best]))
    ids = [token for layer in best for token in layer.indices.tolist()]
    pieces = run.tokenizer.pieces(ids)
    assert page.hands.texts("#logit-lens td .token") == printable(pieces)


def check_label(page: Page, _: Choice) -> None:
    run, seen = page.recorded.run, page.recorded.seen
    [site] = run.sites
    words, number = site.keys.words, len(set(site.keys.words))
    to_word = np.eye(number)[list(words)]
    tokens = len(words)
    relevance: Array = np.zeros(tokens)
    pooling = np.full(tokens, 1 / tokens)
    if "pool" in seen.names():
        weights = seen.weights("pool")
        (gradient,) = torch.autograd.grad(page.recorded.log_prob, weights, retain_graph=True)
        pooling = weights.detach().numpy().ravel()
        relevance = (weights * gradient).clamp(min=0).detach().numpy().ravel()
    else:  # the mean: a ∂log p/∂a = x · ∂log p/∂x
        states = torch.stack([page.recorded.states]).requires_grad_()
        log_prob = page.recorded.label_log_prob(states.mean(1))
        (gradient,) = torch.autograd.grad(log_prob, states)
        relevance = (states * gradient).sum(-1).clamp(min=0)[0].detach().numpy()
    shares = rollouts(page.recorded, site.name)["gradient"][-1]
    flow = normalized((relevance @ shares)[None])[0]
    values = {
        name: page.hands.numbers(f'#label td[data-name="{name}"]:not([data-value=""])', "value")
        for name in ("flow", "pooling", "without", "change")
    }
    close(values["flow"], flow @ to_word)
    close(values["pooling"], pooling @ to_word)
    whole = page.recorded.label_probability(range(tokens))
    without = [
        page.recorded.label_probability([p for p in range(tokens) if words[p] != word])
        for word in range(1, number - 1)  # between the start and the end token
    ]
    close(values["without"], without)
    odds = np.log(np.divide(without, np.subtract(1, without)))
    close(values["change"], np.log(whole / (1 - whole)) - odds, 2e-4)


def check_steps(page: Page, choice: Choice) -> None:
    panel, [head] = choice.panel, choice.heads
    vectors = {
        point: page.recorded.vectors(panel.name, point)[LAYER]
        for point in ("queries", "keys", "values", "head_outputs", "scores", "output")
    }
    [own] = [
        data for data in page.recorded.picture.views["steps"].panels if data.panel == panel.name
    ]
    x, memory = own.inputs[LAYER, choice.query], own.memory[LAYER]
    q, scores = vectors["queries"][head, choice.query], vectors["scores"][head, choice.query]
    keys = [int(key) for key in np.flatnonzero(np.isfinite(scores))]
    k, v = vectors["keys"][head, keys], vectors["values"][head, keys]
    weights = page.recorded.weights(panel)[LAYER, head, choice.query, keys]
    o = vectors["head_outputs"][:, choice.query]
    between = [pair for key, value in zip(k, v, strict=True) for pair in (key, value)]
    scaled = k @ q / np.sqrt(len(q))
    expected: list[tuple[list[Array], list[Array]]] = [
        ([x, *memory[keys]], []),
        ([q, *between], []),
        ([q, *k], [k @ q]),
        ([], [k @ q, scaled]),
        ([], [scores[keys], weights]),
        ([o[head], *v], [weights]),
        (list(o), []),
        ([vectors["output"][choice.query]], []),
    ]
    for number, (strips, columns) in enumerate(expected, start=1):
        page.select("steps", choice, step=str(number))
        shown = page.hands.script(
            "const box = document.getElementById('step-numbers'); box.fill(); "
            "return [...box.querySelectorAll('tbody tr')].map(row => "
            "[...row.querySelectorAll('td')].map(cell => cell.textContent))"
        )
        if strips:
            assert len(shown) == len(strips)
            for texts, vector in zip(shown, strips, strict=True):
                close([number_in(text) for text in texts], vector)
        figures = page.numbers("#step-rows td[data-value]", "value")
        assert figures.size == sum(map(len, columns))
        if columns:
            close(figures, np.stack(columns, 1).ravel(), 2e-4)


def number_in(text: str) -> float:
    return float(text.replace("−", "-"))


def printable(tokens: Sequence[str]) -> list[str]:
    """Return tokens as the page writes them; its blanks are those of JavaScript."""
    return [
        re.sub(r"[ \t]*[\r\n]\s*", "↵", token) if token.strip(" \t\r\n\v\f\xa0") else "␣"
        for token in tokens
    ]


def close(shown: Any, expected: Any, atol: float = TOLERANCE) -> None:
    np.testing.assert_allclose(np.asarray(shown), np.asarray(expected), rtol=0, atol=atol)


def is_dot_product(recorded: Recorded) -> bool:
    return bool(recorded.picture.views["steps"].panels) if recorded.attention else False


@dataclass(frozen=True)
class Check:
    compare: Callable[[Page, Choice], None]
    axes: tuple[str, ...]  # the choices on which the figures depend
    panels: Callable[[Recorded], list[str]]  # those that the view is to offer


def every_panel(recorded: Recorded) -> list[str]:
    return [panel.name for panel in recorded.picture.panels]


def cross(recorded: Recorded) -> list[str]:
    return [name for name in every_panel(recorded) if name == "cross"]


CHECKS = {
    "lines": Check(check_lines, ("query", "heads", "words"), every_panel),
    "heat-map": Check(check_heat_map, ("query", "heads", "words"), every_panel),
    "all-heads": Check(check_all_heads, ("words",), every_panel),
    "entropy": Check(check_entropy, (), lambda recorded: recorded.attention),
    "one-head": Check(check_one_head, ("head",), lambda recorded: recorded.attention),
    "rollout": Check(check_rollout, ("query", "words"), lambda recorded: recorded.attention),
    "alignment": Check(check_alignment, ("heads",), cross),
    "logit-lens": Check(check_logit_lens, (), every_panel),
    "label": Check(check_label, (), lambda recorded: recorded.attention),
    "steps": Check(
        check_steps,
        ("head",),
        lambda recorded: recorded.attention if is_dot_product(recorded) else [],
    ),
}


@pytest.mark.parametrize("view", all_views(), ids=lambda view: view.kind())
@pytest.mark.parametrize("model", MODELS)
def test_figures_are_those_of_the_tensors(
    model: str, view: Any, recorded: Any, browser: Chrome, hands: Any, merge_words: Merge
) -> None:
    own = recorded(model)
    checks = [CHECKS[card] for card in view.cards or (view.kind(),)]
    browser.get("about:blank")
    browser.get(own.page.as_uri())
    if view.kind() not in hands.views():
        is_absent = not checks[0].panels(own) or view.kind() not in own.picture.views
        assert is_absent
        return
    page = Page(hands, own, merge_words)
    page.select(view.kind())
    offered = hands.script(
        "return [...document.querySelectorAll('#panels label')].map(e => e.dataset.panel)"
    )
    assert offered == checks[0].panels(own)
    axes = () if view.cards else checks[0].axes  # the cards are checked in views of their own
    for name in offered:
        for choice in choices(own.picture.panel(name), axes):
            page.select(view.kind(), choice)
            for check in checks:
                check.compare(page, choice)
    assert browser.get_log("browser") == []
