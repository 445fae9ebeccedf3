"""Verdicts on pronouns from constructed evidence, and parts of the experiment."""

from typing import Any

import pytest

from regard.data.bundled import corpus, street_sentences
from regard.data.bundled.lexicon import noun
from regard.data.config import Direction
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.lab.claims.pronouns import ATTENDED, Spec, _sentence
from regard.models.base import ModelSpec
from regard.models.encoder_decoder import EncoderDecoder
from regard.predictors.translator import Translator


def evidence_of(
    models: int = 3,
    lost: float = 0.4,
    others: float = 0.01,
    random_lost: float = 0.02,
    correct: int = 198,
) -> dict[str, Any]:
    def model(seed: int) -> dict[str, Any]:
        count_lost = round(200 * lost) + seed % 3
        step = {
            "head": "cross.1.3",
            "pronouns_lost": [1.0] * count_lost + [0.0] * (200 - count_lost),
            "others_lost": [others] * 200,
            "random_lost": [random_lost, random_lost + 0.01],
            "attention": dict.fromkeys(ATTENDED, 0.5),
        }
        return {
            "heads": 24,
            "accuracy": [1.0] * correct + [0.0] * (200 - correct),
            "steps": [step] * 4,
        }

    return {"models": [model(seed) for seed in range(models)]}


CLAIM, SUPPORTED = Spec(), evidence_of()
FAILING = {
    "learned": evidence_of(correct=100, lost=0.4),
    "breaks": evidence_of(lost=0.005),
    "stands out": evidence_of(random_lost=0.4),
    "specific": evidence_of(others=0.4),
}


def test_one_model_gives_no_verdict_and_more_models_do_not_make_it_harder() -> None:
    """A single model's interval over its sentences was narrower than that over three models."""
    widths = {}
    for models in (1, 3, 10):
        evidence = evidence_of(models)
        assert CLAIM.model_copy(update={"seeds": models}).repetitions(evidence) == models
        breaks = CLAIM.weigh(evidence)["breaks"]
        widths[models] = breaks.high - breaks.low
    assert widths[1] == float("inf") > widths[3] >= widths[10]


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
