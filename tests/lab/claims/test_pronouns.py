"""Verdicts on pronouns from constructed evidence, and parts of the experiment."""

from typing import Any

import pytest

from regard.data.bundled import corpus, street_sentences
from regard.data.bundled.lexicon import noun
from regard.data.config import Direction
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.lab.claim import judge
from regard.lab.claims.pronouns import ATTENDED, Spec, _sentence
from regard.models.base import ModelSpec
from regard.models.encoder_decoder import EncoderDecoder
from regard.predictors.translator import Translator


def evidence_of(
    models: int = 3, lost: float = 0.4, others: float = 0.01, random_lost: float = 0.02
) -> dict[str, Any]:
    def model(seed: int) -> dict[str, Any]:
        count_lost = round(200 * lost) + seed
        step = {
            "head": "cross.1.3",
            "pronouns_lost": [1.0] * count_lost + [0.0] * (200 - count_lost),
            "others_lost": [others] * 200,
            "random_lost": [random_lost, random_lost + 0.01],
            "attention": dict.fromkeys(ATTENDED, 0.5),
        }
        return {"heads": 24, "accuracy": [1.0] * 198 + [0.0] * 2, "steps": [step] * 4}

    return {"models": [model(seed) for seed in range(models)]}


@pytest.mark.parametrize("models", [1, 3])
def test_supported_where_pronouns_are_lost_and_other_words_are_not(models: int) -> None:
    assert judge(Spec, Spec().weigh(evidence_of(models)))[1] == "supported"


@pytest.mark.parametrize(
    ("criterion", "evidence"),
    [
        ("breaks", evidence_of(lost=0.02)),
        ("stands out", evidence_of(random_lost=0.4)),
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


@pytest.mark.parametrize("names", [["en-fr"], ["en-fr", "fr-en"]])
def test_positions_of_pronoun_noun_and_adjective(names: list[str]) -> None:
    splits = corpus(train=300, dev=2, pronouns=10)
    texts = [text for pair in splits.train for text in (pair.french, pair.english)]
    tokenizer = bpe.Spec(vocabulary=600).train(texts, ["fr", "en"])
    settings = {"kind": "encoder-decoder", "dim": 16, "heads": 2, "ffn_dim": 16, "layers": 1}
    model = ModelSpec.model_validate({**settings, "max_length": 60}).build(len(tokenizer))
    assert isinstance(model, EncoderDecoder)
    directions = [Direction(*name.split("-")) for name in names]
    translator = Translator(
        model, tokenizer, LanguageIdentifier({"en": {}, "fr": {}}), 60, directions
    )

    def decoded(ids: list[int], positions: list[int]) -> str:
        return tokenizer.decode([ids[at] for at in positions]).strip()

    for pair in [*street_sentences(), *splits.pronouns]:
        assert pair.choice is not None
        (noun_name, adjective), sentence = pair.choice.split("+"), _sentence(translator, pair)
        assert decoded(sentence.target, sentence.pronoun) == pair.pronoun
        assert decoded(sentence.source, sentence.key_positions["cross"]["noun"]) in (
            noun(noun_name).english,
            noun(noun_name).english_plural,
        )
        assert decoded(sentence.source, sentence.key_positions["encoder"]["adjective"]) == adjective
        assert decoded(sentence.source, [sentence.query_positions["encoder"]])[:1] in ("i", "t")
        assert decoded(sentence.target, sentence.key_positions["decoder"]["noun"]) in (
            noun(noun_name).french,
            noun(noun_name).french_plural,
        )
        assert sentence.query_positions["cross"] == sentence.pronoun[0] - 1
