"""Examples for each kind of model, and invalid text."""

import gzip
from pathlib import Path

import pytest

from regard.errors import ConfigError, DataError
from regard.insight.heads.examples import read_examples
from regard.insight.heads.losses import losses

from .conftest import PAIRS, TEXTS


def test_pairs_from_one_or_two_files_plain_or_gzip(make, tmp_path: Path) -> None:
    home = make("encoder-decoder")
    for name, side in (("a.fr.gz", 0), ("a.en.gz", 1)):
        text = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    two = read_examples(home.loaded, tmp_path / "a.fr.gz", tmp_path / "a.en.gz")
    assert two.rows == home.examples.rows
    assert len(read_examples(home.loaded, home.data, lines=2).rows) == 2


def test_loss_equals_the_score_of_the_translator(make) -> None:
    home = make("encoder-decoder")
    scores = home.loaded.score(*(list(side) for side in zip(*PAIRS, strict=True)))
    example_losses = losses(home.loaded.model, home.examples)
    assert example_losses.rows.sum() == pytest.approx(
        -sum(score.total for score in scores), rel=1e-4
    )
    assert example_losses.tokens.sum() == sum(len(score.token_log_probs) for score in scores)


def test_every_token_of_running_text_is_predicted_once(make) -> None:
    home = make("language-model")
    tokens = len(home.loaded.tokenizer.encode(TEXTS["language-model"].removesuffix("\n")))
    example_losses = losses(home.loaded.model, home.examples)
    assert example_losses.tokens.sum() == pytest.approx(tokens - 1, abs=1)


def test_halves_are_disjoint_and_complete(make) -> None:
    examples = make("classifier").examples
    chosen, judged = examples.halves(4)
    assert len(chosen.rows) <= 4
    assert len(chosen.rows) + len(judged.rows) == len(examples.rows)
    assert not any(row is other for row in chosen.rows for other in judged.rows)


LONG = "court " * 100


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        ("encoder-decoder", "", "the file has no lines"),
        ("classifier", "", "the file has no lines"),
        ("encoder", "\n\n", "the file has no lines"),
        ("language-model", "", "the file has no lines"),
        (
            "encoder-decoder",
            "Un chien.\n",
            r"line 1: wrong columns \(1 instead of 2: 0 'Un chien.' \(read as",
        ),
        ("encoder-decoder", "a\tb\na\tb\tc\n", r"line 2: wrong columns \(3 instead of 2: 0 'a'"),
        ("encoder-decoder", f"a\tb\n{LONG}\tb\n", "line 2: the text has .* takes at most 48"),
        ("encoder-decoder", f"a\tb\na\t{LONG}\n", "line 2: the translation has .* at most 47"),
        ("encoder-decoder", "\tb\n", "line 1: there is no text to translate"),
        (
            "classifier",
            "chien\tde\n",
            "line 1: .* not trained with the label 'de'; its labels: fr, en",
        ),
        ("classifier", f"chien\tfr\n{LONG}\tfr\n", "line 2: there are .* takes 48"),
        ("encoder", f"chien\n{LONG}\n", "line 2: the text has .* takes 48"),
    ],
)
def test_errors_name_invalid_text(make, kind: str, text: str, complaint: str) -> None:
    home = make(kind)
    home.data.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=complaint) as raised:
        read_examples(home.loaded, home.data)
    assert str(raised.value).startswith(str(home.data))


def test_translation_options_need_a_translator(make) -> None:
    home = make("classifier")
    with pytest.raises(ConfigError, match="need a translator"):
        read_examples(home.loaded, home.data, target=home.data)
