"""Speculative decoding gives the greedy output, and samples of the same distribution."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from regard.config import validate
from regard.decoding.greedy import greedy
from regard.decoding.sampling import Sampling
from regard.decoding.speculative import DraftModel, DraftTokens, PromptLookup, speculate
from regard.engine.torch_model import TorchModel
from regard.models.base import ModelSpec

V, END = 9, 0


def built(seed: int, layers: int = 1) -> TorchModel:
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
    return TorchModel(model.double().eval())


class Wrong:
    """A drafter that is nearly always wrong."""

    def __call__(self, _generated: object, count: int, _sampling: object) -> DraftTokens:
        return DraftTokens([1] * count, None)


@dataclass(frozen=True)
class Prefix:
    """A state that is the ids themselves."""

    ids: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        return len(self.ids)

    def reorder(self, _rows: NDArray) -> "Prefix":
        return self

    def truncate(self, length: int) -> "Prefix":
        return Prefix(self.ids[:length])


class Memoized:
    """A model that computes the logits of equal texts once: thousands of samples take seconds."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.logits: dict[tuple[tuple[int, ...], int], NDArray] = {}

    def start(self) -> Prefix:
        return Prefix()

    def extend(self, ids: NDArray, state: Prefix) -> tuple[NDArray, Prefix]:
        text, new = (*state.ids, *ids[0].tolist()), ids.shape[1]
        if (text, new) not in self.logits:
            with torch.inference_mode():
                logits = self.model(torch.tensor([text]))[:, -new:]
            self.logits[text, new] = logits.numpy()
        return self.logits[text, new], Prefix(text)


@pytest.mark.parametrize("count", [1, 3, 6])
@pytest.mark.parametrize("first", range(1, V))
def test_greedy_output_does_not_depend_on_the_drafter(first: int, count: int) -> None:
    model, small = built(1, 2), built(2)
    expected = greedy(model, model.start(), np.array([first]), END, [30])[0]
    for drafter in (
        PromptLookup(),
        DraftModel(small, small.start()),
        DraftModel(model, model.start()),
        Wrong(),
    ):
        actual = list(speculate(model, model.start(), first, END, 30, drafter, count))
        assert actual == expected


def test_good_draft_saves_forward_passes() -> None:
    model = built(3)
    passes = []
    plain = model.extend
    model.extend = lambda ids, state: passes.append(ids.shape[1]) or plain(ids, state)
    draft = built(3)
    generated = list(
        speculate(model, model.start(), 1, END, 30, DraftModel(draft, draft.start()), 5)
    )
    assert len(passes) <= len(generated) / 5 + 1


@pytest.mark.parametrize("kind", ["draft", "lookup", "wrong"])
def test_samples_have_the_distribution_of_the_model(kind: str) -> None:
    """Joint distribution of two tokens after a prompt: exact against sampled."""
    model, small = built(1, 2), built(2)
    with torch.inference_mode():
        p1 = model.model(torch.tensor([[4]]))[0, -1].softmax(-1)
        p2 = model.model(torch.tensor([[4, word] for word in range(V)]))[:, -1].softmax(-1)
    model, small = Memoized(model.model), Memoized(small.model)
    joint = {(END,): p1[END].item()}
    for one in range(1, V):
        for two in range(V):
            key = (one, two) if two != END else (one, END)
            joint[key] = (p1[one] * p2[one, two]).item()
    draws: Counter[tuple[int, ...]] = Counter()
    runs = 3000
    for seed in range(runs):
        drafter = {
            "draft": lambda: DraftModel(small, small.start()),
            "lookup": lambda: PromptLookup(longest=1, prompt=[4, 2, 3, 4]),
            "wrong": Wrong,
        }[kind]()
        generated = list(
            speculate(model, model.start(), 4, END, 2, drafter, 3, Sampling(seed=seed))
        )
        draws[tuple(generated) if len(generated) == 2 else (*generated, END)] += 1
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


def test_prompt_lookup_drafts_what_followed_the_last_occurrence() -> None:
    lookup = PromptLookup(longest=2, prompt=[5, 6, 7, 8, 5, 6])
    assert lookup([9, 6, 7], 3).ids == [8, 5, 6]
    assert lookup([5, 6], 2).ids == [5, 6]  # after the last earlier 5, 6
    assert lookup([3], 3).ids == []
