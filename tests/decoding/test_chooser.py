"""Labels by likelihood: equal to Hugging Face's logits, whatever is beside, and calibrated."""

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
def writer() -> TextGenerator:
    tokenizer = bpe.Spec(vocabulary=400).train(TEXT)
    model = random_model("language-model", len(tokenizer), max_length=48, **LLAMA)
    return TextGenerator(model, tokenizer, 48)


@pytest.fixture(scope="module")
def in_hugging_face(writer: TextGenerator, tmp_path_factory: pytest.TempPathFactory):
    """log p of each id after the first, by another implementation on the same weights."""
    import transformers

    folder: Path = tmp_path_factory.mktemp("theirs")
    sizes = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 48}
    spec = ModelSpec.model_validate({"kind": "language-model", **sizes, **LLAMA})
    run = run_folder.Run(
        task="language-model", model=plain(spec), vocabulary=len(writer.tokenizer),
        details={"max_length": 48}, weights=weights_of(writer.model),
        tokenizer=writer.tokenizer.to_json(), extra_files={}, documents={},
    )  # fmt: skip
    huggingface.export(run, folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()

    def log_p(ids: list[int]) -> list[float]:
        row = torch.tensor([ids])
        with torch.inference_mode():
            found = theirs(row).logits[0, :-1].log_softmax(-1)
        return found.gather(1, row[0, 1:, None])[:, 0].tolist()

    return log_p


@pytest.mark.parametrize("normalize", ["total", "mean", "calibrated"])
def test_equal_to_an_independent_computation(
    normalize, writer: TextGenerator, in_hugging_face
) -> None:
    def score(text: str, continuation: str, how: str) -> float:
        before = [writer.tokenizer.end, *writer.tokenizer.encode(f"{text} It was")]
        whole = [writer.tokenizer.end, *writer.tokenizer.encode(f"{text} It was{continuation}")]
        assert whole[: len(before)] == before  # no piece lies across this border
        words = in_hugging_face(whole)[len(before) - 1 :]
        if how == "calibrated":
            return sum(words) - score("", continuation, "total")
        return sum(words) / (len(words) if how == "mean" else 1)

    texts = [*TEXT[:4], "Two"]  # of different lengths, in one batch
    wanted = torch.tensor(
        [[score(text, each, normalize) for each in LABELS.values()] for text in texts]
    )
    chooser = ZeroShotClassifier(writer, TEMPLATE, LABELS, normalize)
    torch.testing.assert_close(chooser.scores(texts).float(), wanted, atol=1e-4, rtol=1e-4)
    for row, judged in zip(wanted.softmax(-1), chooser.classify(texts), strict=True):
        assert judged.label == list(LABELS)[int(row.argmax())]
        assert judged.probability == pytest.approx(float(row.max()), abs=1e-4)
        assert sum(judged.probabilities.values()) == pytest.approx(1)


def test_what_is_beside_a_text_changes_nothing(writer: TextGenerator) -> None:
    chooser = ZeroShotClassifier(writer, TEMPLATE, LABELS)
    alone = torch.cat([chooser.scores([text]) for text in TEXT])
    torch.testing.assert_close(chooser.scores(TEXT), alone, atol=1e-5, rtol=1e-5)
    assert chooser.classify([]) == []


def test_a_piece_across_the_border_is_compared_for_all_alike(writer: TextGenerator) -> None:
    """The text ends within a word: which pieces it is cut into depends on what follows."""
    ids = writer.tokenizer.encode
    labels = {"one": "ss", "other": "y"}
    before, whole = ids("The gra"), ids("The grass")
    assert whole[: len(before)] != before
    scores = ZeroShotClassifier(writer, "{text}", labels, "total").scores(["The gra"])[0]
    end = writer.tokenizer.end
    rows = [[end, *ids("The gra" + each)] for each in labels.values()]
    shared = next(
        i for i, (a, b) in enumerate(zip([end, *before], rows[0], strict=False)) if a != b
    )
    for score, row in zip(scores, rows, strict=True):
        with torch.inference_mode():
            log_p = writer.model(torch.tensor([row]))[0, :-1].log_softmax(-1)
        words = log_p.gather(1, torch.tensor(row)[1:, None])[:, 0]
        assert float(score) == pytest.approx(float(words[shared - 1 :].sum()), abs=1e-4)


def test_calibration_takes_away_what_is_likely_anyway() -> None:
    """A model that likes one letter everywhere says it of all texts; not so once calibrated."""
    tokenizer = character.Spec().train(TEXT)
    model = random_model("language-model", len(tokenizer), output_bias=True)
    writer = TextGenerator(model, tokenizer, 40)
    labels = {"a": "a", "e": "e"}
    texts = [text[:12] for text in TEXT]
    without = [each.label for each in ZeroShotClassifier(writer, "{text}", labels).classify(texts)]
    assert set(without) == {"a", "e"}
    with torch.no_grad():
        model.output.bias[tokenizer.encode("e")[0]] += 50
    raw = [
        each.label for each in ZeroShotClassifier(writer, "{text}", labels, "total").classify(texts)
    ]
    assert set(raw) == {"e"}
    assert [
        each.label for each in ZeroShotClassifier(writer, "{text}", labels).classify(texts)
    ] == without


def test_bad_questions_are_refused(writer: TextGenerator) -> None:
    for template, labels, normalize, said in (
        ("It was", LABELS, "total", r"no \{text\} in it"),
        (TEMPLATE, {"good": " great"}, "total", "two labels or more.*is one"),
        (TEMPLATE, {}, "total", "there are none"),
        (TEMPLATE, {"good": " great", "bad": " "}, "total", "continuation of 'bad' is empty"),
        (TEMPLATE, {"good": " great", "bad": " great"}, "total", "the same continuation"),
        (TEMPLATE, LABELS, "sum", "total, mean, calibrated"),
    ):
        with pytest.raises(ConfigError, match=said):
            ZeroShotClassifier(writer, template, labels, normalize)
    with pytest.raises(DataError, match="text 2 is empty"):
        ZeroShotClassifier(writer, TEMPLATE, LABELS).classify(["A dog", " "])
    with pytest.raises(DataError, match=r"text 2 .* 'good' has \d+ tokens and this model takes 48"):
        ZeroShotClassifier(writer, TEMPLATE, LABELS).classify(["A dog", "A dog runs. " * 20])


def test_a_model_of_characters() -> None:
    """Where nothing lies across borders, the likelihoods of all one-letter continuations are the
    model's next step."""
    tokenizer = character.Spec().train(TEXT)
    model = random_model("language-model", len(tokenizer))
    writer = TextGenerator(model, tokenizer, 40)
    letters = [each for each in tokenizer.vocabulary() if len(each) == 1 and each.isalpha()]
    chooser = ZeroShotClassifier(writer, "{text}", {each: each for each in letters}, "total")
    ids = torch.tensor([[tokenizer.end, *tokenizer.encode("A dog run")]])
    with torch.inference_mode():
        wanted = model(ids)[0, -1].log_softmax(-1)
    places = [tokenizer.encode(each)[-1] for each in letters]
    torch.testing.assert_close(
        chooser.scores(["A dog run"])[0].float(), wanted[places], atol=1e-5, rtol=1e-5
    )
