"""regard evaluate: what a model is worth, in figures that others can compare with."""

import gzip
import json
from pathlib import Path

import pytest
import torch

import regard
from regard import run_folder
from regard.config import plain
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.evaluation.texts import score_translations
from regard.models.base import ModelSpec
from regard.models.weights import weights_of

from .test_decoding import EN, FR, writer  # noqa: F401  (a fixture)

LINES = [EN, FR, "The cat sleeps.", "Le chat dort."]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES * 5) + "\n")
    return path


def test_a_language_model_on_a_text(writer: Path, call, text: Path) -> None:  # noqa: F811
    answer = call("evaluate", writer, text)
    assert answer.code == 0
    found = regard.load(writer).perplexity(text.read_text())
    assert f"{found.bits_per_character:.4f}" in answer.out
    assert "200, 200" in answer.out
    packed = text.with_name("text.txt.gz")
    packed.write_bytes(gzip.compress(text.read_bytes()))
    assert call("evaluate", writer, packed).out == answer.out
    told = json.loads(call("evaluate", writer, text, "--stride", "50", "--json").out)
    assert told == pytest.approx(
        regard.load(writer).perplexity(text.read_text(), stride=50).to_plain()
    )
    assert told["stride"] == 50
    assert told["loss"] != found.loss


def test_documents_and_several_files(writer: Path, call, text: Path) -> None:  # noqa: F811
    options = ("--documents", "line", "--json")
    assert json.loads(call("evaluate", writer, text, *options).out)["documents"] == 20
    assert json.loads(call("evaluate", writer, text, text, "--json").out)["documents"] == 2


def test_a_tokeniser_that_loses_something_is_named(writer: Path, call, text: Path) -> None:  # noqa: F811
    answer = call("evaluate", writer, text)
    assert "does not reproduce the text" in " ".join(answer.err.split())


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (b"", (), "there is no text in it"),
        (b"animal", (), "there is nothing to predict"),
        (b"fine\n\xff\n", (), "line 2: invalid UTF-8 (byte 1 is 0xff)"),
        (b"fine enough\n", ("--stride", "201"), "stride: 201 tokens; give a stride from 1"),
        (b"fine enough\n", ("--context", "201"), "this model takes from 1 to 200"),
        (b"fine enough\n", ("--to", "fr"), "--to has no effect on a language model"),
    ],
)
def test_bad_input_is_one_sentence(
    writer: Path,  # noqa: F811
    call,
    tmp_path: Path,
    content: bytes,
    options: tuple[str, ...],
    said: str,
) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    answer = call("evaluate", writer, tmp_path / "text.txt", *options)
    assert answer.code == 1
    assert said in " ".join(answer.err.split())
    assert "Traceback" not in answer.err
    assert answer.out == ""


def test_a_missing_file_is_named(writer: Path, call, tmp_path: Path) -> None:  # noqa: F811
    answer = call("evaluate", writer, tmp_path / "nowhere.txt")
    assert answer.code == 1
    assert "nowhere.txt: cannot be read" in answer.err


@pytest.fixture
def translator(tmp_path: Path) -> Path:
    """A translator with weights of chance."""
    torch.manual_seed(0)
    tokenizer = bpe.Spec(vocabulary=400).train([EN, FR])
    spec = ModelSpec.model_validate({"kind": "encoder-decoder", "size": "tiny", "max_length": 60})
    run = run_folder.Run(
        task="translation",
        model=plain(spec),
        vocabulary=len(tokenizer),
        details={"max_length": 60, "directions": ["en → fr"]},
        weights=weights_of(spec.build(len(tokenizer))),
        tokenizer=tokenizer.to_json(),
        extra_files={"languages.json": LanguageIdentifier({"fr": {}, "en": {}}).to_json()},
        documents={},
    )
    run_folder.write(run, tmp_path / "translator")
    return tmp_path / "translator"


def test_a_translator_on_pairs(translator: Path, call, tmp_path: Path) -> None:
    said = regard.load(translator).translate([EN, "The cat sleeps."])
    references = [said[0], "Le chat dort."]  # one of them it finds
    rows = list(zip([EN, "The cat sleeps."], references, strict=True))
    (tmp_path / "pairs.tsv").write_text("".join(f"{one}\t{two}\n" for one, two in rows))
    (tmp_path / "en.txt").write_text("".join(f"{one}\n" for one, _ in rows))
    (tmp_path / "fr.txt").write_text("".join(f"{two}\n" for _, two in rows))
    answer = call("evaluate", translator, tmp_path / "pairs.tsv", "--to", "fr")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("BLEU")
    assert "(nrefs:1|case:mixed|eff:no|tok:13a" in answer.out
    assert "(nrefs:1|case:mixed|eff:yes|nc:6" in answer.out
    two = call("evaluate", translator, tmp_path / "en.txt", tmp_path / "fr.txt")
    assert two.out == answer.out
    told = json.loads(
        call("evaluate", translator, tmp_path / "pairs.tsv", "--json", "--lowercase").out
    )
    found = score_translations(said, references, lowercase=True)
    assert told.pop("signatures") == found.signatures
    assert told == pytest.approx({**found.values, "pairs": 2, "beam": 1})
    assert told["exact_match"] == 0.5
    assert "case:lc" in found.signatures["bleu"]
    wrong = call("evaluate", translator, tmp_path / "pairs.tsv", "--stride", "3")
    assert "--stride has no effect on a translator" in wrong.err
    (tmp_path / "pairs.tsv").write_text("no columns\nhere\n")
    assert call("evaluate", translator, tmp_path / "pairs.tsv").code == 1


def test_a_prompt_past_the_context(writer: Path, call) -> None:  # noqa: F811
    prompt = EN * 30
    refused = call("generate", writer, "--prompt", prompt)
    assert refused.code == 1
    assert refused.out == ""
    assert "--sliding-window" in refused.err
    answer = call("generate", writer, "--prompt", prompt, "--max-tokens", "20", "--sliding-window")
    assert answer.code == 0
    assert answer.out.startswith(prompt)
    assert "the last 200 of the prompt's" in answer.err
    assert "slides" in answer.err
    quiet = call("generate", writer, "--prompt", "The", "--max-tokens", "20", "--sliding-window")
    assert quiet.err == ""
    assert call("generate", writer, "--max-tokens", "300", "--sliding-window").code == 0
