"""Zero-shot classification: scores as in Hugging Face, independent of the batch, calibrated."""

from pathlib import Path

import pytest
import torch

from regard import run_folder
from regard.config import plain
from regard.data.tokenizers import bpe, character
from regard.errors import ConfigError, DataError
from regard.interchange.exports import huggingface
from regard.models.base import ModelSpec
from regard.models.weights import weights_of
from regard.predictors.generator import TextGenerator
from regard.predictors.zero_shot import ZeroShotClassifier

from .conftest import TEXT, random_model

TEMPLATE = "{text} It was"
LABELS = {"good": " a red ball", "bad": " grass.", "neither": " read"}
LLAMA = {
    "position": {"kind": "rotary", "pairs": "halves"}, "norm": "rms", "feed_forward": "gated",
    "bias": False, "scale_embedding": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def generator() -> TextGenerator:
    tokenizer = bpe.Spec(vocabulary=400).train(TEXT)
    model = random_model("language-model", len(tokenizer), max_length=48, **LLAMA)
    return TextGenerator(model, tokenizer, 48)


@pytest.fixture(scope="module")
def in_hugging_face(generator: TextGenerator, tmp_path_factory: pytest.TempPathFactory):
    """Return log p of each id after the first, from transformers with the same weights."""
    import transformers

    folder: Path = tmp_path_factory.mktemp("theirs")
    sizes = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 48}
    spec = ModelSpec.model_validate({"kind": "language-model", **sizes, **LLAMA})
    run = run_folder.Run(
        task="language-model", model=plain(spec), vocabulary=len(generator.tokenizer),
        details={"max_length": 48}, weights=weights_of(generator.model),
        tokenizer=generator.tokenizer.to_json(), extra_files={}, documents={},
    )  # fmt: skip
    huggingface.export(run, folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()

    def log_p(ids: list[int]) -> list[float]:
        row = torch.tensor([ids])
        with torch.inference_mode():
            actual = theirs(row).logits[0, :-1].log_softmax(-1)
        return actual.gather(1, row[0, 1:, None])[:, 0].tolist()

    return log_p


@pytest.mark.parametrize("normalize", ["total", "mean", "calibrated"])
def test_scores_equal_hugging_face(normalize, generator: TextGenerator, in_hugging_face) -> None:
    def score(text: str, continuation: str, normalize: str) -> float:
        prompt = [generator.tokenizer.end, *generator.tokenizer.encode(f"{text} It was")]
        whole = [
            generator.tokenizer.end,
            *generator.tokenizer.encode(f"{text} It was{continuation}"),
        ]
        assert whole[: len(prompt)] == prompt  # no token crosses this border
        words = in_hugging_face(whole)[len(prompt) - 1 :]
        if normalize == "calibrated":
            return sum(words) - score("", continuation, "total")
        return sum(words) / (len(words) if normalize == "mean" else 1)

    texts = [*TEXT[:4], "Two"]  # of different lengths, in one batch
    expected = torch.tensor(
        [[score(text, each, normalize) for each in LABELS.values()] for text in texts]
    )
    classifier = ZeroShotClassifier(generator, TEMPLATE, LABELS, normalize)
    torch.testing.assert_close(classifier.scores(texts).float(), expected, atol=1e-4, rtol=1e-4)
    for row, prediction in zip(expected.softmax(-1), classifier.classify(texts), strict=True):
        assert prediction.label == list(LABELS)[int(row.argmax())]
        assert prediction.probability == pytest.approx(float(row.max()), abs=1e-4)
        assert sum(prediction.probabilities.values()) == pytest.approx(1)


def test_scores_do_not_depend_on_the_batch(generator: TextGenerator) -> None:
    classifier = ZeroShotClassifier(generator, TEMPLATE, LABELS)
    alone = torch.cat([classifier.scores([text]) for text in TEXT])
    torch.testing.assert_close(classifier.scores(TEXT), alone, atol=1e-5, rtol=1e-5)
    assert classifier.classify([]) == []


def test_token_across_the_border_is_scored_for_all_labels(generator: TextGenerator) -> None:
    """The text ends within a word: its tokens depend on the continuation."""
    ids = generator.tokenizer.encode
    labels = {"one": "ss", "other": "y"}
    before, whole = ids("The gra"), ids("The grass")
    assert whole[: len(before)] != before
    scores = ZeroShotClassifier(generator, "{text}", labels, "total").scores(["The gra"])[0]
    end = generator.tokenizer.end
    rows = [[end, *ids("The gra" + each)] for each in labels.values()]
    shared = next(
        i for i, (a, b) in enumerate(zip([end, *before], rows[0], strict=False)) if a != b
    )
    for score, row in zip(scores, rows, strict=True):
        with torch.inference_mode():
            log_p = generator.model(torch.tensor([row]))[0, :-1].log_softmax(-1)
        words = log_p.gather(1, torch.tensor(row)[1:, None])[:, 0]
        assert float(score) == pytest.approx(float(words[shared - 1 :].sum()), abs=1e-4)


def test_calibration_removes_the_prior_of_continuations() -> None:
    """A model with a large bias for one letter chooses it for all texts unless calibrated."""
    tokenizer = character.Spec().train(TEXT)
    model = random_model("language-model", len(tokenizer), output_bias=True)
    generator = TextGenerator(model, tokenizer, 40)
    labels = {"a": "a", "e": "e"}
    texts = [text[:12] for text in TEXT]
    unbiased = [
        each.label for each in ZeroShotClassifier(generator, "{text}", labels).classify(texts)
    ]
    assert set(unbiased) == {"a", "e"}
    with torch.no_grad():
        model.output.bias[tokenizer.encode("e")[0]] += 50
    raw = [
        each.label
        for each in ZeroShotClassifier(generator, "{text}", labels, "total").classify(texts)
    ]
    assert set(raw) == {"e"}
    assert [
        each.label for each in ZeroShotClassifier(generator, "{text}", labels).classify(texts)
    ] == unbiased


def test_invalid_templates_labels_and_texts_are_refused(generator: TextGenerator) -> None:
    for template, labels, normalize, message in (
        ("It was", LABELS, "total", r"no \{text\} in it"),
        (TEMPLATE, {"good": " great"}, "total", "two labels or more.*is one"),
        (TEMPLATE, {}, "total", "there are none"),
        (TEMPLATE, {"good": " great", "bad": " "}, "total", "continuation of 'bad' is empty"),
        (TEMPLATE, {"good": " great", "bad": " great"}, "total", "the same continuation"),
        (TEMPLATE, LABELS, "sum", "total, mean, calibrated"),
    ):
        with pytest.raises(ConfigError, match=message):
            ZeroShotClassifier(generator, template, labels, normalize)
    with pytest.raises(DataError, match="text 2 is empty"):
        ZeroShotClassifier(generator, TEMPLATE, LABELS).classify(["A dog", " "])
    with pytest.raises(DataError, match=r"text 2 .* 'good' has \d+ tokens and this model takes 48"):
        ZeroShotClassifier(generator, TEMPLATE, LABELS).classify(["A dog", "A dog runs. " * 20])


def test_character_model_scores_equal_its_next_token() -> None:
    """Without tokens across borders, scores of one-letter continuations are the next log-probs."""
    tokenizer = character.Spec().train(TEXT)
    model = random_model("language-model", len(tokenizer))
    generator = TextGenerator(model, tokenizer, 40)
    letters = [each for each in tokenizer.vocabulary() if len(each) == 1 and each.isalpha()]
    classifier = ZeroShotClassifier(generator, "{text}", {each: each for each in letters}, "total")
    ids = torch.tensor([[tokenizer.end, *tokenizer.encode("A dog run")]])
    with torch.inference_mode():
        expected = model(ids)[0, -1].log_softmax(-1)
    places = [tokenizer.encode(each)[-1] for each in letters]
    torch.testing.assert_close(
        classifier.scores(["A dog run"])[0].float(), expected[places], atol=1e-5, rtol=1e-5
    )
