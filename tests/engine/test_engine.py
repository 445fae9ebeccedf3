"""The engine against the model itself, and the same bits in any company."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import validate
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy, stream_tokens
from regard.engine.library import library
from regard.engine.packing import Matrix, UnsupportedError
from regard.engine.ranking import rank
from regard.engine.steppers import FastEncoderDecoder, FastLanguageModel
from regard.errors import DataError
from regard.models.base import ModelSpec

pytestmark = pytest.mark.skipif(library() is None, reason="the engine was not built")

V, LENGTH = 50, 40
SIZES = {"dim": 48, "heads": 4, "ffn_dim": 72, "layers": 2, "dropout": 0.0, "max_length": LENGTH}
VARIANTS = {
    "as it comes": {},
    "norm last": {"norm_first": False},
    "rms, gated, no bias": {"norm": "rms", "feed_forward": "gated", "bias": False},
    "gelu, learned positions": {
        "feed_forward": {"kind": "dense", "activation": "gelu"},
        "position": "learned",
    },
    "gelu-tanh, norm on the embeddings": {
        "feed_forward": {"kind": "dense", "activation": "gelu-tanh"},
        "embedding_norm": True,
    },
    "rotary": {"position": "rotary"},
    "rotary in halves, shared keys": {
        "position": {"kind": "rotary", "pairs": "halves"},
        "kv_heads": 2,
    },
    "alibi": {"position": "alibi"},
    "a bias for each distance": {"position": {"kind": "distance", "clip": 5}},
    "no order, small heads": {"position": "none", "head_dim": 5, "scale_embedding": False},
    "output with a bias": {"output_bias": True},
}


def built(kind: str, **settings: object) -> torch.nn.Module:
    torch.manual_seed(1)
    model = validate(ModelSpec, {"kind": kind, **SIZES, **settings}, "test").build(V)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)  # norms and biases too
    return model.eval()


@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 13, 100])
@pytest.mark.parametrize("shape", [(16, 8), (50, 48), (33, 301), (1, 1), (5, 600)])
def test_a_product_is_a_product(shape: tuple[int, int], rows: int, bits: int) -> None:
    weight, bias, x = torch.randn(shape), torch.randn(shape[0]), torch.randn(rows, shape[1])
    found = Matrix(weight, bias, bits)(x)
    wanted = torch.nn.functional.linear(x.double(), weight.double(), bias.double()).float()
    if bits == 32:
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-4)
    else:
        # A weight is off by half of a 63rd of the greatest, an input by half of a 255th of the
        # range of its row: at most this is what they come to.
        off, away = weight.abs().amax(1) / 126, (x.amax(1) - x.amin(1))[:, None] / 510
        inputs, weights = x.abs().sum(1, keepdim=True), weight.abs().sum(1) + off * shape[1]
        assert ((found - wanted).abs() <= (off * inputs + away * weights) * 1.001 + 1e-5).all()


def test_whole_numbers_at_their_greatest_add_up_without_loss() -> None:
    weight = torch.stack([torch.ones(64), -torch.ones(64)])
    x = torch.ones(7, 64)
    x[:, 0] = 0
    found = Matrix(weight, None, 8)(x)
    torch.testing.assert_close(found, torch.tensor([[63.0, -63.0]]).expand(7, 2))


@pytest.mark.parametrize("bits", [32, 8])
def test_a_row_is_the_same_bits_in_any_company(bits: int) -> None:
    matrix = Matrix(torch.randn(70, 600), torch.randn(70), bits)
    x = torch.randn(101, 600)
    together = matrix(x)
    for count in (1, 2, 3, 5, 6, 7, 50):
        assert torch.equal(matrix(x[:count].contiguous()), together[:count])
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    assert torch.equal(matrix(x), together)
    torch.set_num_threads(before)


@pytest.mark.parametrize(("rows", "size", "count"), [(1, 1, 1), (3, 7, 7), (5, 8, 3), (40, 999, 5)])
def test_the_highest_are_found_in_order(rows: int, size: int, count: int) -> None:
    x = torch.randn(rows, size) * 5
    values, places, sums = rank(x, count)
    wanted = x.sort(descending=True, stable=True)
    assert torch.equal(values, wanted.values[:, :count])
    assert torch.equal(places, wanted.indices[:, :count])
    torch.testing.assert_close(sums, x.logsumexp(-1), rtol=1e-6, atol=1e-5)


def test_of_equals_the_earlier_comes_first() -> None:
    values, places, _ = rank(torch.tensor([[1.0, 3, 3, 2, 3, 0, 0, 0, 0, 3]]), 3)
    assert values.tolist() == [[3, 3, 3]]
    assert places.tolist() == [[1, 2, 4]]


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_an_encoder_decoder_gives_the_same_logits(variant: dict[str, object]) -> None:
    model = built("encoder-decoder", **variant)
    fast = FastEncoderDecoder(model, LENGTH)
    source = torch.randint(V, (3, 9))
    source_mask = torch.arange(9) < torch.tensor([9, 4, 6])[:, None]
    target = torch.randint(V, (3, 7))
    with torch.inference_mode():
        wanted = model(source, source_mask, target)
        state = fast.start(source, source_mask)
        all_at_once, _ = fast.extend(target, state)
        for word in range(7):
            logits, state = fast.step(target[:, word], state)
            torch.testing.assert_close(logits, wanted[:, word], rtol=1e-4, atol=1e-4)
            assert torch.equal(logits, all_at_once[:, word])


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_a_language_model_gives_the_same_logits(variant: dict[str, object]) -> None:
    model = built("language-model", **variant)
    fast = FastLanguageModel(model, LENGTH)
    ids = torch.randint(V, (2, 12))
    with torch.inference_mode():
        wanted = model(ids)
    state = fast.start()
    first, state = fast.extend(ids[:, :5], state)
    rest, state = fast.extend(ids[:, 5:], state)
    torch.testing.assert_close(torch.cat([first, rest], 1), wanted, rtol=1e-4, atol=1e-4)
    assert state.length == 12


def test_rows_can_be_reordered_repeated_and_taken_back() -> None:
    model = built("encoder-decoder")
    fast = FastEncoderDecoder(model, LENGTH)
    source, source_mask = torch.randint(V, (2, 6)), torch.ones(2, 6, dtype=torch.bool)
    ids = torch.randint(V, (2, 5))
    rows = torch.tensor([1, 0, 1])
    with torch.inference_mode():
        state = fast.extend(ids, fast.start(source, source_mask))[1].reorder(rows)
        more = torch.randint(V, (3, 3))
        found, _ = fast.extend(more, state)
        wanted = model(source[rows], source_mask[rows], torch.cat([ids[rows], more], 1))[:, 5:]
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        back = state.truncate(2)
        found, _ = fast.extend(more, back)
        wanted = model(source[rows], source_mask[rows], torch.cat([ids[rows][:, :2], more], 1))[
            :, 2:
        ]
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@given(st.lists(st.integers(0, 11), min_size=1, max_size=12), st.sampled_from([1, 4]))
@settings(max_examples=25, deadline=None)
def test_a_sentence_is_translated_alike_in_any_batch(chosen: list[int], width: int) -> None:
    model = built("encoder-decoder")
    fast = FastEncoderDecoder(model, LENGTH)
    chance = torch.Generator().manual_seed(5)
    lengths = torch.randint(1, 12, (12,), generator=chance).tolist()
    sources = [torch.randint(4, V, (length,), generator=chance) for length in lengths]

    def said(rows: list[int], extra: int) -> list[object]:
        longest = max(lengths[row] for row in rows) + extra
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        for place, row in enumerate(rows):
            ids[place, : lengths[row]] = sources[row]
        source_mask = torch.arange(longest) < torch.tensor([lengths[row] for row in rows])[:, None]
        state, first = fast.start(ids, source_mask), torch.full((len(rows),), 2)
        limits = [10 + row for row in rows]
        if width == 1:
            return list(greedy(fast, state, first, 3, limits))
        return list(beam_search(fast, state, first, 3, limits, width))

    alone = {row: said([row], 0)[0] for row in set(chosen)}
    assert said(chosen, 3) == [alone[row] for row in chosen]


def test_what_the_engine_has_not_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="Relative"):
        FastLanguageModel(built("language-model", position="relative"), LENGTH)
    with pytest.raises(UnsupportedError, match="Experts"):
        FastLanguageModel(built("language-model", feed_forward="moe"), LENGTH)


@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
def test_going_on_by_itself_says_what_step_by_step_says(kind: str) -> None:
    fast_model = built(kind)
    first, limits = torch.randint(0, V, (5,)), [7, 1, 12, 4, 9]
    if kind == "encoder-decoder":
        fast = FastEncoderDecoder(fast_model, LENGTH)
        source_mask = torch.arange(6) < torch.tensor([[6], [3], [1], [5], [2]])
        state = fast.start(torch.randint(0, V, (5, 6)), source_mask)
    else:
        fast = FastLanguageModel(fast_model, LENGTH)
        state = fast.start()
    for prompt in (None, torch.randint(0, V, (5, 3))):
        if prompt is not None:
            _, state = fast.extend(prompt, state)
            state = state.reorder(torch.tensor([4, 0, 1, 1, 2]))
        for end in range(0, V, 5):
            wanted: list[list[int]] = [[] for _ in limits]
            for words in stream_tokens(fast, state, first, end, limits):
                for row, word in words:
                    wanted[row].append(word)
            assert fast.greedy(first, state, end, limits) == wanted
    for parameter in fast_model.parameters():
        parameter.data.fill_(float("nan"))
    broken = type(fast)(fast_model, LENGTH)
    nowhere = state if kind == "encoder-decoder" else broken.start()
    assert all(max(said, default=0) < V for said in broken.greedy(first, nowhere, V - 1, limits))
    with pytest.raises(DataError, match="was given more"):
        fast.greedy(first, state, 0, [LENGTH] * 5)
