"""regard evaluate: perplexity of language models, BLEU and chrF of translators."""

import gzip
import json
from pathlib import Path

import pytest

import regard
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.evaluation.texts import score_translations

from .conftest import EN, FR
from .random_run import write_random_run

LINES = [EN, FR, "The cat sleeps.", "Le chat dort."]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES * 5) + "\n")
    return path


def test_perplexity_of_a_language_model_on_a_text(language_model: Path, call, text: Path) -> None:
    result = call("evaluate", language_model, text)
    assert result.code == 0
    expected = regard.load(language_model).perplexity(text.read_text())
    assert f"{expected.bits_per_character:.4f}" in result.out
    assert "200, 200" in result.out
    packed = text.with_name("text.txt.gz")
    packed.write_bytes(gzip.compress(text.read_bytes()))
    assert call("evaluate", language_model, packed).out == result.out
    strided = json.loads(call("evaluate", language_model, text, "--stride", "50", "--json").out)
    assert strided == pytest.approx(
        regard.load(language_model).perplexity(text.read_text(), stride=50).to_plain()
    )
    assert strided["stride"] == 50
    assert strided["loss"] != expected.loss


def test_documents_are_lines_or_files(language_model: Path, call, text: Path) -> None:
    options = ("--documents", "line", "--json")
    assert json.loads(call("evaluate", language_model, text, *options).out)["documents"] == 20
    assert json.loads(call("evaluate", language_model, text, text, "--json").out)["documents"] == 2


def test_a_tokenizer_that_does_not_reproduce_the_text_is_reported(
    language_model: Path, call, text: Path
) -> None:
    result = call("evaluate", language_model, text)
    assert "does not reproduce the text" in " ".join(result.err.split())


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", (), "there is no text in it"),
        (b"animal", (), "there is nothing to predict"),
        (b"fine\n\xff\n", (), "line 2: invalid UTF-8 (byte 1 is 0xff)"),
        (b"fine enough\n", ("--stride", "201"), "stride: 201 tokens; give a stride from 1"),
        (b"fine enough\n", ("--context", "201"), "this model takes from 1 to 200"),
        (b"fine enough\n", ("--to", "fr"), "--to has no effect on a language model"),
    ],
)
def test_errors_are_one_sentence(
    language_model: Path,
    call,
    tmp_path: Path,
    content: bytes,
    options: tuple[str, ...],
    message: str,
) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    result = call("evaluate", language_model, tmp_path / "text.txt", *options)
    assert result.code == 1
    assert message in " ".join(result.err.split())
    assert "Traceback" not in result.err
    assert result.out == ""


def test_error_names_a_missing_file(language_model: Path, call, tmp_path: Path) -> None:
    result = call("evaluate", language_model, tmp_path / "nowhere.txt")
    assert result.code == 1
    assert "nowhere.txt: cannot be read" in result.err


@pytest.fixture
def translator(tmp_path: Path) -> Path:
    """Return the run folder of a translator with random weights."""
    return write_random_run(
        tmp_path / "translator",
        "translation",
        {"kind": "encoder-decoder", "size": "tiny", "max_length": 60},
        bpe.Spec(vocabulary=400).train([EN, FR]),
        {"max_length": 60, "directions": ["en → fr"]},
        {"languages.json": LanguageIdentifier({"fr": {}, "en": {}}).to_json()},
    )


def test_scores_of_a_translator_on_pairs(translator: Path, call, tmp_path: Path) -> None:
    outputs = regard.load(translator).translate([EN, "The cat sleeps."])
    references = [outputs[0], "Le chat dort."]  # one exact match
    rows = list(zip([EN, "The cat sleeps."], references, strict=True))
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    (tmp_path / "en.txt").write_text("".join(f"{source}\n" for source, _ in rows))
    (tmp_path / "fr.txt").write_text("".join(f"{target}\n" for _, target in rows))
    result = call("evaluate", translator, tmp_path / "pairs.tsv", "--to", "fr")
    assert result.code == 0, result.err
    assert result.out.startswith("BLEU")
    assert "(nrefs:1|case:mixed|eff:no|tok:13a" in result.out
    assert "(nrefs:1|case:mixed|eff:yes|nc:6" in result.out
    two_files = call("evaluate", translator, tmp_path / "en.txt", tmp_path / "fr.txt")
    assert two_files.out == result.out
    lowercased = json.loads(
        call("evaluate", translator, tmp_path / "pairs.tsv", "--json", "--lowercase").out
    )
    expected = score_translations(outputs, references, lowercase=True)
    assert lowercased.pop("signatures") == expected.signatures
    assert lowercased == pytest.approx({**expected.values, "pairs": 2, "beam": 1})
    assert lowercased["exact_match"] == 0.5
    assert "case:lc" in expected.signatures["bleu"]
    refused = call("evaluate", translator, tmp_path / "pairs.tsv", "--stride", "3")
    assert "--stride has no effect on a translator" in refused.err
    (tmp_path / "pairs.tsv").write_text("no columns\nhere\n")
    assert call("evaluate", translator, tmp_path / "pairs.tsv").code == 1


def test_sliding_window_takes_a_prompt_beyond_the_context(language_model: Path, call) -> None:
    prompt = EN * 30
    refused = call("generate", language_model, "--prompt", prompt)
    assert refused.code == 1
    assert refused.out == ""
    assert "--sliding-window" in refused.err
    result = call(
        "generate", language_model, "--prompt", prompt, "--max-tokens", "20", "--sliding-window"
    )
    assert result.code == 0
    assert result.out.startswith(prompt)
    assert "the last 200 of the prompt's" in result.err
    assert "slides" in result.err
    quiet = call(
        "generate", language_model, "--prompt", "The", "--max-tokens", "20", "--sliding-window"
    )
    assert quiet.err == ""
    assert call("generate", language_model, "--max-tokens", "300", "--sliding-window").code == 0
