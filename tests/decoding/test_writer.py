"""The writer: prompts of any length together, the same words alone, streamed or guessed at."""

import pytest
import torch

from regard.decoding.sampling import Sampling
from regard.decoding.search import Search
from regard.decoding.writer import Writer
from regard.errors import DataError

from .conftest import TEXT, random_model

PROMPTS = ["", "A", "A dog runs", *TEXT, "The girl has a red"]
WAYS = {
    "greedy": Search(),
    "sampled": Search(sampling=Sampling(temperature=0.8, top_k=20, seed=4)),
    "beam": Search(beam=3),
    "without repeating": Search(no_repeat=2, repetition_penalty=1.3),
}


@pytest.mark.parametrize("search", WAYS.values(), ids=WAYS.keys())
def test_prompts_are_continued_alike_in_any_company(writer, search: Search) -> None:
    together = writer.candidates(PROMPTS, 20, search)
    for number, prompt in enumerate(PROMPTS):
        if search.sampling is None:  # chance knows a prompt by its number
            assert writer.candidates([prompt], 20, search)[0] == together[number]
    again = writer.candidates(PROMPTS[:4], 20, search)
    assert again == together[:4]


def test_the_engine_says_what_the_model_says(writer) -> None:
    fast = writer.candidates(PROMPTS, 20)
    writer.model.register_forward_hook(lambda *_: None)  # whoever watches sees the model itself
    assert writer.candidates(PROMPTS, 20) == fast


def test_a_stream_is_the_text_bit_by_bit(writer) -> None:
    assert "".join(writer.stream("A dog", 20)) == writer.generate("A dog", 20)
    sampling = Sampling(seed=3)
    drawn = "".join(writer.stream("A dog", 20, sampling))
    assert drawn == writer.generate("A dog", 20, Search(sampling=sampling))


def test_guessing_says_the_same(writer, tokenizer) -> None:
    small = random_model("language-model", len(tokenizer), seed=2, max_length=120)
    draft = Writer(small, tokenizer, 120)
    for prompt in PROMPTS:
        wanted = writer.generate(prompt, 30)
        assert "".join(writer.speculate(prompt, 30)) == wanted
        assert "".join(writer.speculate(prompt, 30, draft)) == wanted


def test_a_text_is_scored_as_the_model_sees_it(writer) -> None:
    (score,) = writer.score([TEXT[0]])
    ids = [*writer.tokenizer.encode(TEXT[0]), writer.tokenizer.end]
    with torch.inference_mode():
        log_p = writer.model(torch.tensor([ids[:-1]])).log_softmax(-1)[0]
    wanted = log_p.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    assert score.words == pytest.approx(wanted.tolist(), abs=1e-4)
    assert score.perplexity == pytest.approx(float((-wanted.mean()).exp()), rel=1e-3)


def test_what_does_not_fit_is_refused(writer) -> None:
    with pytest.raises(DataError, match="120 in all"):
        writer.generate("A dog", 500)
    with pytest.raises(DataError, match="600 tokens and this model takes at most 120"):
        writer.score(["a dog runs " * 200])
