"""Arguments of predictors: what cannot be used is refused with a sentence; nothing in, nothing out.

Every predictor is called with empty lists, lone surrogates, one text instead of a list, and counts
that are out of range.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest

from regard.data.batches.spans import sentinel
from regard.data.config import Direction
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.decoding.config import DecodingConfig
from regard.decoding.sampling import Sampling
from regard.errors import ConfigError, DataError
from regard.predictors.classifier import Classifier
from regard.predictors.embedder import Embedder
from regard.predictors.generator import TextGenerator
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.span_filler import SpanFiller
from regard.predictors.summarizer import Summarizer
from regard.predictors.translator import Translator
from regard.predictors.zero_shot import ZeroShotClassifier

from .conftest import TEXT, random_model

CONTINUATIONS = {"one": " tree", "two": " trees"}
SURROGATE = "a dog \ud800 runs"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return bpe.Spec(vocabulary=400).train(TEXT, ["mask", *map(sentinel, range(3)), "en", "fr"])


@pytest.fixture(scope="module")
def predictors(tokenizer: Tokenizer) -> dict[str, Any]:
    def model(kind: str, **settings: object) -> Any:
        return random_model(kind, len(tokenizer), **settings)

    generator = TextGenerator(model("language-model"), tokenizer, 40)
    directions = [Direction("fr", "en"), Direction("en", "fr")]
    identifier = LanguageIdentifier({"fr": {}, "en": {}})
    return {
        "translator": Translator(model("encoder-decoder"), tokenizer, identifier, 40, directions),
        "summarizer": Summarizer(model("encoder-decoder"), tokenizer, 40, 10),
        "generator": generator,
        "classifier": Classifier(model("classifier", classes=2), tokenizer, ["a", "b"], 40),
        "embedder": Embedder(model("encoder"), tokenizer, 40),
        "filler": MaskFiller(model("masked-lm"), tokenizer, 40),
        "spans": SpanFiller(model("encoder-decoder"), tokenizer, 40, 3),
        "zero-shot": ZeroShotClassifier(generator, "{text}", CONTINUATIONS),
    }


# Calls with a list of texts
LISTS: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "translate": lambda p, texts: p["translator"].translate(texts, to="en"),
    "summarize": lambda p, texts: p["summarizer"].summarize(texts),
    "generate": lambda p, texts: p["generator"].candidates(texts, 3),
    "score": lambda p, texts: p["generator"].score(texts),
    "classify": lambda p, texts: p["classifier"].classify(texts),
    "embed": lambda p, texts: p["embedder"].embed(texts),
    "score masked": lambda p, texts: p["filler"].score(texts),
    "zero-shot": lambda p, texts: p["zero-shot"].classify(texts),
    "score translations": lambda p, texts: p["translator"].score(texts, texts, to="en"),
    "score summaries": lambda p, texts: p["summarizer"].score(texts, texts),
}
# Calls with one text
TEXTS: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "stream translation": lambda p, text: list(p["translator"].stream(text, to="en")),
    "stream summary": lambda p, text: list(p["summarizer"].stream(text)),
    "generate": lambda p, text: p["generator"].generate(text, 3),
    "stream": lambda p, text: list(p["generator"].stream(text, 3)),
    "speculate": lambda p, text: list(p["generator"].speculate(text, 3)),
    "perplexity": lambda p, text: p["generator"].perplexity(text),
    "fill": lambda p, text: p["filler"].fill(text),
    "fill spans": lambda p, text: p["spans"].fill(text),
    "prefix": lambda p, text: p["translator"].translate(["a dog"], to="en", prefix=text),
    "phrase": lambda p, text: p["translator"].translate(["a"], to="en", require_phrases=[text]),
}


@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS.keys())
def test_list_of_nothing_gives_nothing(predictors: dict[str, Any], call: Any) -> None:
    assert len(call(predictors, [])) == 0


@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS.keys())
def test_one_text_is_no_list_of_its_characters(predictors: dict[str, Any], call: Any) -> None:
    with pytest.raises(DataError, match="a list of texts is needed, not one text"):
        call(predictors, "a dog")


@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS.keys())
def test_lone_surrogate_in_a_list_is_named(predictors: dict[str, Any], call: Any) -> None:
    with pytest.raises(DataError, match=r"^(text|line|prompt) 2 has a lone surrogate \(U\+D800\)"):
        call(predictors, ["a dog", SURROGATE])
    with pytest.raises(DataError, match=r"(text|line|prompt) 1 is int, not str"):
        call(predictors, [5])


@pytest.mark.parametrize("call", TEXTS.values(), ids=TEXTS.keys())
def test_lone_surrogate_in_a_text_is_named(predictors: dict[str, Any], call: Any) -> None:
    with pytest.raises(DataError, match=r"has a lone surrogate \(U\+D800\) at character 7, in "):
        call(predictors, SURROGATE)


def test_surrogates_are_refused_by_the_tokenizer_itself(tokenizer: Tokenizer) -> None:
    for encode in (tokenizer.encode, tokenizer.spans, tokenizer.word_numbers):
        with pytest.raises(DataError, match="at character 7"):
            encode(SURROGATE)
    with pytest.raises(DataError, match="at character 7"):
        tokenizer.encode_all(["a dog", SURROGATE])
    with pytest.raises(DataError, match="a text is int, not str"):
        tokenizer.encode(5)  # type: ignore[arg-type]


COUNTS = {
    "max_tokens of translate": lambda p, n: p["translator"].translate(["a"], "en", max_tokens=n),
    "max_tokens of summarize": lambda p, n: p["summarizer"].summarize(["a"], max_tokens=n),
    "max_tokens of generate": lambda p, n: p["generator"].generate("a", n),
    "max_tokens of stream": lambda p, n: list(p["generator"].stream("a", n)),
    "max_tokens of speculate": lambda p, n: list(p["generator"].speculate("a", n)),
    "draft_tokens": lambda p, n: list(p["generator"].speculate("a", 3, draft_tokens=n)),
    "top of fill": lambda p, n: p["filler"].fill("a ___", n),
    "top of spans": lambda p, n: p["spans"].fill("a ___", n),
    "beam": lambda p, n: p["translator"].translate(["a"], "en", beam=n),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [-1, "3", 2.5, True, math.nan])
def test_counts_are_checked(predictors: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^{name.split()[0]} is .*; it must be a whole number"):
        COUNTS[name](predictors, value)


def test_empty_continuations_and_blanks(predictors: dict[str, Any]) -> None:
    generator = predictors["generator"]
    for decoding in (None, DecodingConfig(beam=3), DecodingConfig(sampling=Sampling())):
        assert generator.generate("a dog", 0, decoding) == ""
    assert "".join(generator.stream("a dog", 0)) == ""
    assert "".join(generator.speculate("a dog", 0)) == ""
    for filler in ("filler", "spans"):
        with pytest.raises(DataError, match="has no blank"):
            predictors[filler].fill("")
        with pytest.raises(ConfigError, match=r"^top is 0"):
            predictors[filler].fill("a ___", top=0)
    with pytest.raises(DataError, match="text 1 is empty"):
        predictors["filler"].score([""])
    with pytest.raises(DataError, match="there is no text to classify"):
        predictors["classifier"].classify([""])
    with pytest.raises(DataError, match="1 texts and 2 names"):
        predictors["classifier"].classify(["a"], ["one", "two"])
    assert tuple(predictors["embedder"].embed([]).shape) == (0, 32)


def test_zero_shot_arguments_are_checked(predictors: dict[str, Any]) -> None:
    generator = predictors["generator"]
    for template, continuations, message in (
        ("{text}", {}, "needs two labels"),
        ("{text}", ["a", "b"], "must be a mapping"),
        ("{text}", {"a": 1, "b": "x"}, "must be str; 1 is int"),
        (None, CONTINUATIONS, "must be str; None is NoneType"),
        ("no place", CONTINUATIONS, "has no {text} in it"),
    ):
        with pytest.raises(ConfigError, match=message):
            ZeroShotClassifier(generator, template, continuations)  # type: ignore[arg-type]


def test_settings_of_predictors_are_checked(predictors: dict[str, Any]) -> None:
    tokenizer = predictors["embedder"].tokenizer
    for pooling in ("median", 5, None):
        with pytest.raises(ConfigError, match="pooling"):
            Embedder(predictors["embedder"].model, tokenizer, 40, pooling)  # type: ignore[arg-type]
    for bits in (7, "8", None):
        with pytest.raises(ConfigError, match=r"bits is .*; it must be 32, or 8 or 4"):
            TextGenerator(predictors["generator"].model, tokenizer, 40, bits=bits)  # type: ignore[arg-type]


LINES = [*TEXT, "", "A dog runs. " * 9]


@pytest.mark.parametrize("beam", [1, 3])
def test_prefix_is_counted_and_begins_a_line_once(predictors: dict[str, Any], beam: int) -> None:
    translator, prefix = predictors["translator"], "The girl has a red ball"
    needed = len(translator.tokenizer.encode(prefix))
    decoding = DecodingConfig(beam=beam)
    outputs = translator.candidates(LINES, "en", None, decoding, (), prefix, False, needed + 2)
    for line, (best, *_) in zip(LINES, outputs, strict=True):
        assert best.text.startswith(prefix) == bool(line)
        assert [target.startswith(prefix) for _, target in best.segments[1:]] == [False] * (
            max(len(best.segments) - 1, 0)
        )
    with pytest.raises(DataError, match=rf"^line 1: .* has {needed} tokens, and .* at most 2: "):
        translator.candidates(LINES, "en", None, decoding, (), prefix, False, 2)
    summarizer = predictors["summarizer"]
    with pytest.raises(DataError, match=rf"^text 1: .* has {needed} tokens, .*--prefix.*raise"):
        summarizer.candidates(TEXT, None, decoding, prefix, 2)
    assert all(
        text.startswith(prefix) for text in summarizer.summarize(TEXT, beam=beam, prefix=prefix)
    )


def test_required_phrases_are_counted(predictors: dict[str, Any]) -> None:
    translator, phrase = predictors["translator"], "red ball"
    needed = len(translator.tokenizer.encode(phrase))
    for output in translator.candidates(TEXT, "en", require_phrases=[phrase], max_tokens=needed):
        assert output[0].text == phrase
        assert not output[0].finished
    with pytest.raises(DataError, match=r"^line 1: .*\(--require-phrase\), or raise --max-tokens"):
        translator.candidates(TEXT, "en", require_phrases=[phrase], max_tokens=needed - 1)
    with pytest.raises(DataError, match=r"^line 1: .*\(--require-phrase\)\.$"):
        translator.translate(TEXT, "en", require_phrases=["the girl has none "] * 20)
    for wrong in ("red ball", [""]):
        with pytest.raises(ConfigError, match=r"require.phrase"):
            translator.translate(TEXT, "en", require_phrases=wrong)
    decoding = DecodingConfig(sampling=Sampling())
    with pytest.raises(ConfigError, match="sampling and required phrases exclude each other"):
        translator.translate(TEXT, "en", decoding=decoding, require_phrases=[phrase])
    suppressed = DecodingConfig(suppress_phrases=[translator.tokenizer.encode(phrase)])
    with pytest.raises(ConfigError, match="'red ball' is both suppressed"):
        translator.translate(TEXT, "en", decoding=suppressed, prefix=phrase)


def test_outputs_are_marked_where_the_limit_ended_them(predictors: dict[str, Any]) -> None:
    translator, summarizer = predictors["translator"], predictors["summarizer"]
    for decoding in (DecodingConfig(), DecodingConfig(beam=3, n_best=3)):
        for outputs in (
            translator.candidates(TEXT, "en", decoding=decoding, max_tokens=1),
            summarizer.candidates(TEXT, decoding=decoding, max_tokens=1),
        ):
            for hypotheses in outputs:
                assert all(not each.finished or not each.text for each in hypotheses)
            assert not all(each.finished for each, *_ in outputs)
    assert translator.candidates([""], "en")[0][0].finished


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_each_text_is_returned_once(predictors: dict[str, Any], groups: int) -> None:
    decoding = DecodingConfig(beam=8, n_best=8, beam_groups=groups, diversity=0.0)
    for outputs in (
        predictors["translator"].candidates(LINES, "en", decoding=decoding),
        predictors["summarizer"].candidates(TEXT, decoding=decoding),
    ):
        for hypotheses in outputs:
            texts = [each.text for each in hypotheses]
            assert 1 <= len(texts) == len(set(texts))
    for texts in predictors["generator"].candidates(["", "A dog"], 5, decoding):
        assert 1 <= len(texts) == len(set(texts))


def test_streamed_translation_keeps_suppressed_tokens_out(tokenizer: Tokenizer) -> None:
    """A converted model names tokens that it must not generate."""
    model = random_model("encoder-decoder", len(tokenizer), seed=5)
    identifier, directions = LanguageIdentifier({"fr": {}, "en": {}}), [Direction("fr", "en")]
    free = Translator(model, tokenizer, identifier, 40, directions)
    first = free.translate_ids([free.source_ids(TEXT[0], "en", "here")])[0][0]
    bound = Translator(model, tokenizer, identifier, 40, directions, suppressed=[first])
    assert "".join(bound.stream(TEXT[0])) == bound.translate([TEXT[0]])[0]
    assert bound.translate([TEXT[0]]) != free.translate([TEXT[0]])
