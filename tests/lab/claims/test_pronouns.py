"""Verdicts on pronouns from given evidence, and parts of the experiment."""

from typing import Any

import pytest

from regard.data.bundled import corpus, street_sentences
from regard.data.bundled.lexicon import noun
from regard.data.config import Direction
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.lab.claim import judge
from regard.lab.claims.pronouns import LOOKS, Spec, _sentence
from regard.models.base import ModelSpec
from regard.models.encoder_decoder import EncoderDecoder
from regard.predictors.translator import Translator


def evidence_of(
    models: int = 3, lost: float = 0.4, others: float = 0.01, chance: float = 0.02
) -> dict[str, Any]:
    def model(seed: int) -> dict[str, Any]:
        missed = round(200 * lost) + seed
        step = {
            "head": "cross.1.3",
            "pronouns_lost": [1.0] * missed + [0.0] * (200 - missed),
            "others_lost": [others] * 200,
            "by_chance": [chance, chance + 0.01],
            "looks": dict.fromkeys(LOOKS, 0.5),
        }
        return {"heads": 24, "right": [1.0] * 198 + [0.0] * 2, "steps": [step] * 4}

    return {"models": [model(seed) for seed in range(models)]}


@pytest.mark.parametrize("models", [1, 3])
def test_supported_where_pronouns_are_lost_and_other_words_are_not(models: int) -> None:
    assert judge(Spec, Spec().weigh(evidence_of(models)))[1] == "supported"


@pytest.mark.parametrize(
    ("criterion", "evidence"),
    [
        ("breaks", evidence_of(lost=0.02)),
        ("stands out", evidence_of(chance=0.4)),
        ("specific", evidence_of(others=0.4)),
        ("specific", evidence_of(models=1, others=0.4)),
    ],
)
def test_not_supported_where_selected_heads_are_like_random_ones(
    criterion: str, evidence: dict[str, Any]
) -> None:
    outcomes, verdict = judge(Spec, Spec().weigh(evidence))
    assert (outcomes[criterion], verdict) == ("fails", "not supported here")


def test_every_ablation_step_is_shown() -> None:
    table, plot = Spec().show(evidence_of())
    assert len(table.rows) == 3 * 4  # type: ignore[union-attr]
    assert all(sorted(line) == [1, 2, 3, 4] for line in plot.series.values())  # type: ignore[union-attr]


@pytest.mark.parametrize("ways", [["en-fr"], ["en-fr", "fr-en"]])
def test_positions_of_pronoun_noun_and_adjective(ways: list[str]) -> None:
    drawn = corpus(train=300, dev=2, pronouns=10)
    texts = [text for pair in drawn.train for text in (pair.french, pair.english)]
    tokenizer = bpe.Spec(vocabulary=600).train(texts, ["fr", "en"])
    settings = {"kind": "encoder-decoder", "dim": 16, "heads": 2, "ffn_dim": 16, "layers": 1}
    model = ModelSpec.model_validate({**settings, "max_length": 60}).build(len(tokenizer))
    assert isinstance(model, EncoderDecoder)
    directions = [Direction(*way.split("-")) for way in ways]
    translator = Translator(
        model, tokenizer, LanguageIdentifier({"en": {}, "fr": {}}), 60, directions
    )

    def said(ids: list[int], places: list[int]) -> str:
        return tokenizer.decode([ids[at] for at in places]).strip()

    for pair in [*street_sentences(), *drawn.pronouns]:
        assert pair.choice is not None
        (named, quality), found = pair.choice.split("+"), _sentence(translator, pair)
        assert said(found.target, found.pronoun) == pair.pronoun
        assert said(found.source, found.places["cross"]["noun"]) in (
            noun(named).english,
            noun(named).english_plural,
        )
        assert said(found.source, found.places["encoder"]["adjective"]) == quality
        assert said(found.source, [found.asking["encoder"]])[:1] in ("i", "t")
        assert said(found.target, found.places["decoder"]["noun"]) in (
            noun(named).french,
            noun(named).french_plural,
        )
        assert found.asking["cross"] == found.pronoun[0] - 1
