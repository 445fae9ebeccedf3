"""Translator: batching, threads, the engine and streaming do not change a translation."""

import itertools
import math
from copy import copy

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.decoding.beam import Hypothesis
from regard.decoding.config import DecodingConfig
from regard.engine.library import library
from regard.errors import ConfigError, DataError
from regard.predictors.copies import respelled
from regard.predictors.seq2seq import Request
from regard.predictors.source_text import SourceHandling

from .conftest import TEXT

LINES = [*TEXT, "", "   ", "🦊", "a", "The girl has a red ball. " * 12]
SETTINGS = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def hypotheses(translator, line: str, decoding: DecodingConfig) -> list[Hypothesis]:
    source = translator.source_ids(line, "en", "here")
    return translator.runner.decode([Request(source, 2 * len(source) + 10)], decoding)[0]


def test_one_translation_for_each_line(translator) -> None:
    out = translator.translate(LINES)
    assert len(out) == len(LINES)
    assert out[5] == out[6] == ""


@pytest.mark.skipif(library() is None, reason="the engine was not built")
@given(st.lists(st.integers(0, len(LINES) - 1), min_size=1, max_size=14), st.sampled_from([1, 3]))
@SETTINGS
def test_translation_does_not_depend_on_the_batch(translator, numbers, beam) -> None:
    alone = {
        i: translator.candidates([LINES[i]], decoding=DecodingConfig(beam=beam))[0]
        for i in set(numbers)
    }
    together = translator.candidates(
        [LINES[i] for i in numbers], decoding=DecodingConfig(beam=beam)
    )
    for i, actual in zip(numbers, together, strict=True):
        assert [each.text for each in actual] == [each.text for each in alone[i]]


def test_translation_does_not_depend_on_the_number_of_threads(translator) -> None:
    threads_before = torch.get_num_threads()
    outputs = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        outputs.append(translator.translate(LINES * 3))
    torch.set_num_threads(threads_before)
    assert outputs[0] == outputs[1]


def test_engine_translates_like_torch(translator) -> None:
    fast = translator.translate(LINES)
    assert translator.engine_model.uses_engine == (library() is not None)
    translator.model.register_forward_hook(lambda *_: None)  # hooks select torch
    assert not translator.engine_model.uses_engine
    assert translator.translate(LINES) == fast


def test_changed_weights_are_packed_again(translator) -> None:
    before = translator.translate(TEXT)
    with torch.no_grad():
        for parameter in translator.model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    assert translator.translate(TEXT) != before


def test_long_text_is_split_without_loss(translator) -> None:
    text = " ".join(TEXT)
    (actual,) = translator.candidates([text])
    segments = actual[0].segments
    assert len(segments) > 1
    assert "".join(source for source, _ in segments).replace(" ", "") == text.replace(" ", "")
    alone = translator.translate([source for source, _ in segments])
    assert [target for _, target in segments] == alone


def test_candidates_are_sorted_by_score(translator) -> None:
    (actual,) = translator.candidates([TEXT[0]], decoding=DecodingConfig(beam=5, n_best=4))
    assert 1 < len(actual) <= 4
    assert len({each.text for each in actual}) == len(actual)
    scores = [each.score for each in actual]
    assert scores == sorted(scores, reverse=True)
    (plain,) = translator.candidates([TEXT[0]])
    assert math.isnan(plain[0].score)


def test_beam_scores_equal_those_of_score(translator) -> None:
    actual = hypotheses(translator, TEXT[0], DecodingConfig(beam=4, n_best=3))
    source = translator.source_ids(TEXT[0], "en", "here")
    scored = translator.runner.score([source] * len(actual), [each.ids for each in actual])
    assert [each.mean for each in scored] == pytest.approx(
        [each.score for each in actual], abs=1e-4
    )


def test_the_beam_of_the_model_is_the_default(translator) -> None:
    wide = copy(translator)
    wide.beam = 3
    expected = translator.candidates(LINES, decoding=DecodingConfig(beam=3))
    assert wide.candidates(LINES) == expected
    assert wide.translate(LINES) == [translations[0].text for translations in expected]
    assert wide.translate(LINES, beam=1) == translator.translate(LINES) != wide.translate(LINES)


def test_prefix_begins_every_translation(translator) -> None:
    for beam in (1, 3):
        for line in translator.translate(TEXT, beam=beam, prefix="The girl has"):
            assert line.startswith("The girl has")


def test_max_tokens_limits_the_translation(translator) -> None:
    sources = [translator.source_ids(line, "en", "here") for line in TEXT]
    for beam in (1, 3):
        for tokens, least, most in ((30, 3, 30), (2, 0, 2)):
            requests = [Request(source, tokens) for source in sources]
            actual = translator.runner.decode(requests, DecodingConfig(beam=beam))
            assert least <= max(len(each[0].ids) for each in actual) <= most
        assert translator.translate(TEXT, beam=beam, max_tokens=2) != translator.translate(TEXT)
    with pytest.raises(ConfigError, match="max_tokens is 0; it must be a whole number from 1"):
        translator.translate(TEXT, max_tokens=0)


def test_forward_pre_hooks_select_torch(translator) -> None:
    translator.model.decoder.norm.register_forward_pre_hook(lambda *_: None)
    assert not translator.engine_model.uses_engine


def test_required_and_suppressed_phrases(translator) -> None:
    for line in translator.translate(TEXT, beam=3, require_phrases=["red ball"]):
        assert "red ball" in line
    ids = hypotheses(translator, TEXT[0], DecodingConfig(beam=3))[0].ids
    for phrase in (ids[:1], ids[:2]):
        other = hypotheses(translator, TEXT[0], DecodingConfig(beam=3, suppress_phrases=[phrase]))[
            0
        ].ids
        starts = range(len(other) - len(phrase) + 1)
        assert all(other[start : start + len(phrase)] != phrase for start in starts)


def test_placeholders_are_kept(translator) -> None:
    lines = ["Il y a 1,234 chiens sur {place}.", "Voir https://a.org/x pour %s."]
    first, second = translator.translate(lines, keep_placeholders=True)
    assert "1,234" in first
    assert "{place}" in first
    assert "https://a.org/x" in second
    assert "%s" in second


def test_streamed_translation_equals_the_translation(translator) -> None:
    streams = [list(translator.stream(line)) for line in TEXT]
    assert ["".join(parts) for parts in streams] == translator.translate(TEXT)
    assert max(map(len, streams)) > 1


def test_sampling_depends_only_on_the_seed(translator) -> None:
    from regard.decoding.sampling import Sampling

    def sample(seed: int, lines: list[str]) -> list[str]:
        return translator.translate(lines, decoding=DecodingConfig(sampling=Sampling(seed=seed)))

    assert sample(1, TEXT) == sample(1, TEXT)
    assert sample(1, TEXT) != sample(2, TEXT)


def test_invalid_arguments_are_refused(translator) -> None:
    with pytest.raises(ConfigError, match="widen the beam"):
        DecodingConfig(beam=2, n_best=3)
    with pytest.raises(DataError, match="one translation for each"):
        translator.score(["a"], [])
    with pytest.raises(DataError, match="cannot produce 'de'"):
        translator.translate(["a"], to="de")


def with_handling(translator, **handling: bool):
    handled = copy(translator)
    handled.handling = SourceHandling(**handling)
    return handled


def test_sentences_of_a_line_are_translated_by_themselves(translator) -> None:
    first, second = TEXT[0], "The girl has a red ball."
    handled = with_handling(translator, split_sentences=True)
    alone = handled.translate([first, second])
    (translation,) = handled.candidates([f"{first}  {second}"])[0]
    assert translation.text == "  ".join(alone)
    assert [source for source, _ in translation.segments] == [first, second]
    # A required phrase may belong to any of the sentences.
    (whole,) = handled.candidates([f"{first}  {second}"], require_phrases=["ball"])[0]
    assert len(whole.segments) == 1


def test_edges_and_text_without_words_are_copied(translator) -> None:
    handled = with_handling(translator, restore_lost=True)
    lines = ["12:30", "- 🎉 ", f"- {TEXT[0]}", ""]
    done: list[int] = []
    out = handled.translate(lines, on_progress=done.append)
    assert out[:2] == lines[:2]
    assert out[2].startswith("- ")
    assert out[3] == ""
    assert sum(done) == 3
    assert ["".join(handled.stream(line)) for line in lines[:2]] == lines[:2]


def test_text_in_capitals_has_a_translation_in_capitals(translator) -> None:
    handled = with_handling(translator, lowercase_capitals=True)
    sentence = TEXT[0][:1].upper() + TEXT[0][1:].lower()
    expected = handled.translate([sentence])[0].upper()
    assert handled.translate([TEXT[0].upper()]) == [expected]
    assert "".join(handled.stream(TEXT[0].upper())) == expected


def test_what_a_translation_lost_is_decoded_again(translator) -> None:
    line = f"{TEXT[0].removesuffix('.')} 58713."
    assert "58713" not in translator.translate([line])[0]
    handled = with_handling(translator, restore_lost=True)
    assert "58713" in handled.translate([line])[0]
    # Where phrases cannot be placed, the translation stays.
    groups = DecodingConfig(beam=2, beam_groups=2)
    assert handled.translate([line], decoding=groups) == translator.translate(
        [line], decoding=groups
    )


@pytest.mark.parametrize(
    ("source", "translation", "part", "expected"),
    [
        ("It costs $3,450.50.", "Ça coûte 3450 $.", "3,450.50", "Ça coûte 3,450.50 $."),
        ("Call 555-1234.", "Appelez 5551234.", "555-1234", "Appelez 555-1234."),
        ("Ask Papadopoulos.", "Demande à propos.", "Papadopoulos", "Demande à propos."),
        ("See Schwarzenegger.", "Voyez Schzenger.", "Schwarzenegger", "Voyez Schwarzenegger."),
        ("Took 250 of 1250.", "1250, dont 25.", "250", "1250, dont 250."),
        ("On May 12, 2031.", "Le 12 mai.", "2031", "Le 12 mai."),  # 12 is another number
        ("In Ouagadougou.", "À Ouagadou.", "Ouagadougou", "À Ouagadougou."),
        ("Visit https://a.org/x.", "Voir https://a.ogr/x.", "https://a.org/x", None),
    ],
)
def test_misspelled_parts_are_replaced(
    source: str, translation: str, part: str, expected: str | None
) -> None:
    assert respelled(source, translation, [part]) == (expected or f"Voir {part}.")


def test_required_whole_words_are_not_continued(
    translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = translator.tokenizer
    source, (word,) = translator.source_ids(TEXT[0], "en", "here"), tokenizer.encode("dog")

    def tokens_after_it(whole_words: bool) -> set[int]:
        request = Request(source, 30, ([word],), whole_words=whole_words)
        (best,) = translator.runner.decode([request], DecodingConfig(beam=5))[0]
        return {after for before, after in itertools.pairwise(best.ids) if before == word}

    usual = tokens_after_it(False)
    assert usual
    monkeypatch.setitem(vars(tokenizer), "word_continuations", np.array(sorted(usual)))
    assert not tokens_after_it(True) & usual
    assert tokens_after_it(False) == usual


def test_pieces_that_continue_a_word(tokenizer) -> None:
    (dog,), continued = tokenizer.encode("dog"), tokenizer.encode("dogs12")[1:]
    assert dog not in tokenizer.word_continuations
    assert {*continued} <= {*tokenizer.word_continuations.tolist()}
    assert tokenizer.encode("a,")[-1] not in tokenizer.word_continuations
