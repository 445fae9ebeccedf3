"""The translator: every line comes out, alike in any company, however it is asked."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.decoding.beam import Hypothesis
from regard.decoding.config import DecodingConfig
from regard.engine.library import library
from regard.errors import ConfigError, DataError
from regard.predictors.seq2seq import Request

from .conftest import TEXT

LINES = [*TEXT, "", "   ", "🦊", "a", "The girl has a red ball. " * 12]
ALIKE = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def searched(translator, line: str, search: DecodingConfig) -> list[Hypothesis]:
    source = translator.source_ids(line, "en", "here")
    return translator.runner.decode([Request(source, 2 * len(source) + 10)], search, [])[0]


def test_as_many_lines_out_as_in(translator) -> None:
    out = translator.translate(LINES)
    assert len(out) == len(LINES)
    assert out[5] == out[6] == ""


@pytest.mark.skipif(library() is None, reason="the engine was not built")
@given(st.lists(st.integers(0, len(LINES) - 1), min_size=1, max_size=14), st.sampled_from([1, 3]))
@ALIKE
def test_a_line_is_translated_alike_in_any_company(translator, chosen, beam) -> None:
    alone = {
        i: translator.candidates([LINES[i]], decoding=DecodingConfig(beam=beam))[0]
        for i in set(chosen)
    }
    together = translator.candidates([LINES[i] for i in chosen], decoding=DecodingConfig(beam=beam))
    for i, found in zip(chosen, together, strict=True):
        assert [each.text for each in found] == [each.text for each in alone[i]]


def test_one_thread_or_two_say_the_same(translator) -> None:
    before = torch.get_num_threads()
    said = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        said.append(translator.translate(LINES * 3))
    torch.set_num_threads(before)
    assert said[0] == said[1]


def test_the_engine_says_what_the_model_says(translator) -> None:
    fast = translator.translate(LINES)
    assert translator.decodable.is_fast == (library() is not None)
    translator.model.register_forward_hook(lambda *_: None)  # whoever watches sees the model itself
    assert not translator.decodable.is_fast
    assert translator.translate(LINES) == fast


def test_new_weights_are_packed_anew(translator) -> None:
    before = translator.translate(TEXT)
    with torch.no_grad():
        for parameter in translator.model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    assert translator.translate(TEXT) != before


def test_long_text_is_cut_and_nothing_is_left_out(translator) -> None:
    text = " ".join(TEXT)
    (found,) = translator.candidates([text])
    parts = found[0].segments
    assert len(parts) > 1
    assert "".join(source for source, _ in parts).replace(" ", "") == text.replace(" ", "")
    alone = translator.translate([source for source, _ in parts])
    assert [target for _, target in parts] == alone


def test_the_best_of_several_come_first_with_their_scores(translator) -> None:
    (found,) = translator.candidates([TEXT[0]], decoding=DecodingConfig(beam=5, n_best=4))
    assert len(found) == 4
    assert len({each.text for each in found}) > 1
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    (plain,) = translator.candidates([TEXT[0]])
    assert math.isnan(plain[0].score)


def test_scores_are_those_of_scoring(translator) -> None:
    found = searched(translator, TEXT[0], DecodingConfig(beam=4, n_best=3))
    source = translator.source_ids(TEXT[0], "en", "here")
    scored = translator.runner.score([source] * 3, [each.ids for each in found])
    assert [each.mean for each in scored] == pytest.approx([each.score for each in found], abs=1e-4)


def test_a_prefix_begins_every_translation(translator) -> None:
    for beam in (1, 3):
        for line in translator.translate(TEXT, beam=beam, prefix="The girl has"):
            assert line.startswith("The girl has")


def test_a_translation_is_as_long_as_is_asked_for(translator) -> None:
    sources = [translator.source_ids(line, "en", "here") for line in TEXT]
    for beam in (1, 3):
        for tokens, least, most in ((30, 3, 30), (2, 0, 2)):
            asked = [Request(source, tokens) for source in sources]
            found = translator.runner.decode(asked, DecodingConfig(beam=beam), [])
            assert least <= max(len(each[0].ids) for each in found) <= most
        assert translator.translate(TEXT, beam=beam, max_tokens=2) != translator.translate(TEXT)
    with pytest.raises(ConfigError, match="it must be 1 or more"):
        translator.translate(TEXT, max_tokens=0)


def test_whoever_steps_in_before_a_part_has_the_model_itself(translator) -> None:
    translator.model.decoder.norm.register_forward_pre_hook(lambda *_: None)
    assert not translator.decodable.is_fast


def test_forced_and_forbidden_phrases(translator) -> None:
    for line in translator.translate(TEXT, beam=3, require_phrases=["red ball"]):
        assert "red ball" in line
    said = searched(translator, TEXT[0], DecodingConfig(beam=3))[0].ids
    for phrase in (said[:1], said[:2]):
        other = searched(translator, TEXT[0], DecodingConfig(beam=3, suppress_phrases=[phrase]))[
            0
        ].ids
        places = range(len(other) - len(phrase) + 1)
        assert all(other[place : place + len(phrase)] != phrase for place in places)


def test_numbers_and_variables_are_kept(translator) -> None:
    asked = ["Il y a 1,234 chiens sur {place}.", "Voir https://a.org/x pour %s."]
    first, second = translator.translate(asked, keep_placeholders=True)
    assert "1,234" in first
    assert "{place}" in first
    assert "https://a.org/x" in second
    assert "%s" in second


def test_a_stream_is_the_translation_bit_by_bit(translator) -> None:
    streams = [list(translator.stream(line)) for line in TEXT]
    assert ["".join(parts) for parts in streams] == translator.translate(TEXT)
    assert max(map(len, streams)) > 1


def test_sampling_is_repeatable_and_a_matter_of_the_seed(translator) -> None:
    from regard.decoding.sampling import Sampling

    def drawn(seed: int, lines: list[str]) -> list[str]:
        return translator.translate(lines, decoding=DecodingConfig(sampling=Sampling(seed=seed)))

    assert drawn(1, TEXT) == drawn(1, TEXT)
    assert drawn(1, TEXT) != drawn(2, TEXT)


def test_what_cannot_be_is_refused(translator) -> None:
    with pytest.raises(ConfigError, match="widen the beam"):
        DecodingConfig(beam=2, n_best=3)
    with pytest.raises(DataError, match="one translation for each"):
        translator.score(["a"], [])
    with pytest.raises(DataError, match="cannot produce 'de'"):
        translator.translate(["a"], to="de")
