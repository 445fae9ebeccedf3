"""Guessing changes how fast words come, not which: to the word, and in distribution."""

from collections import Counter

import pytest
import torch
from torch import nn

from regard.config import validate
from regard.decoding.greedy import greedy
from regard.decoding.sampling import Sampling
from regard.decoding.speculative import DraftModel, DraftTokens, PromptLookup, speculate
from regard.models.base import ModelSpec

V, END = 9, 0


def built(seed: int, layers: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    sizes = {
        "dim": 16,
        "heads": 2,
        "ffn_dim": 32,
        "layers": layers,
        "dropout": 0.0,
        "max_length": 64,
    }
    model = validate(ModelSpec, {"kind": "language-model", **sizes}, "test").build(V)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)
    return model.double().eval()


class Wrong:
    """A guesser that is nearly always wrong."""

    def __call__(self, _said: object, count: int, _sampling: object) -> DraftTokens:
        return DraftTokens([1] * count, None)


@pytest.mark.parametrize("count", [1, 3, 6])
@pytest.mark.parametrize("first", range(1, V))
def test_greedy_says_the_same_words(first: int, count: int) -> None:
    model, small = built(1, 2), built(2)
    wanted = greedy(model, model.start(), torch.tensor([first]), END, [30])[0]
    for guesser in (
        PromptLookup(),
        DraftModel(small, small.start()),
        DraftModel(model, model.start()),
        Wrong(),
    ):
        found = list(speculate(model, model.start(), first, END, 30, guesser, count))
        assert found == wanted


def test_a_good_draft_saves_passes() -> None:
    model = built(3)
    passes = []
    plain = model.extend
    model.extend = lambda ids, state: passes.append(ids.size(1)) or plain(ids, state)
    draft = built(3)
    said = list(speculate(model, model.start(), 1, END, 30, DraftModel(draft, draft.start()), 5))
    assert len(passes) <= len(said) / 5 + 1


@pytest.mark.parametrize("kind", ["draft", "lookup", "wrong"])
def test_samples_are_distributed_as_without(kind: str) -> None:
    """Two words after a given one: their joint distribution, exact against drawn."""
    model, small = built(1, 2), built(2)
    with torch.inference_mode():
        p1 = model(torch.tensor([[4]]))[0, -1].softmax(-1)
        p2 = model(torch.tensor([[4, word] for word in range(V)]))[:, -1].softmax(-1)
    joint = {(END,): p1[END].item()}
    for one in range(1, V):
        for two in range(V):
            key = (one, two) if two != END else (one, END)
            joint[key] = (p1[one] * p2[one, two]).item()
    draws: Counter[tuple[int, ...]] = Counter()
    runs = 3000
    for seed in range(runs):
        guesser = {
            "draft": lambda: DraftModel(small, small.start()),
            "lookup": lambda: PromptLookup(longest=1, prompt=[4, 2, 3, 4]),
            "wrong": Wrong,
        }[kind]()
        said = list(speculate(model, model.start(), 4, END, 2, guesser, 3, Sampling(seed=seed)))
        draws[tuple(said) if len(said) == 2 else (*said, END)] += 1
    chi2, degrees = 0.0, -1
    rest_wanted, rest_found = 0.0, 0
    for key, p in joint.items():
        if p * runs >= 5:
            chi2 += (draws[key] - p * runs) ** 2 / (p * runs)
            degrees += 1
        else:
            rest_wanted, rest_found = rest_wanted + p * runs, rest_found + draws[key]
    chi2 += (rest_found - rest_wanted) ** 2 / max(rest_wanted, 1e-9) if rest_wanted > 1 else 0
    assert chi2 < degrees + 1 + 4 * (2 * (degrees + 1)) ** 0.5


def test_a_lookup_says_what_followed_last_time() -> None:
    look = PromptLookup(longest=2, prompt=[5, 6, 7, 8, 5, 6])
    assert look([9, 6, 7], 3).ids == [8, 5, 6]
    assert look([5, 6], 2).ids == [5, 6]  # after the 5, 6 that stands last before them
    assert look([3], 3).ids == []
