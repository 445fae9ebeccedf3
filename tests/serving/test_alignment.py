"""Alignment as plain data, and the attention of a translation."""

from pathlib import Path

import pytest

import regard
from regard.errors import DataError
from regard.insight.alignment import word_weights
from regard.insight.look import look
from regard.insight.picture import History
from regard.predictors.translator import Translator
from regard.serving.alignment import MIN_WEIGHT, Alignment, align_pairs, concatenated
from regard.serving.tasks import align, translate
from regard.serving.tasks import look as look_task
from regard.serving.tasks.base import Canceled, TaskContext

from .conftest import EN, FR, write_translator


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return regard.load_translator(write_translator(tmp_path_factory.mktemp("align") / "run"))


def test_links_are_those_of_the_weights_the_largest_first(translator: Translator) -> None:
    (alignment,) = align_pairs(translator, [(EN, FR)], "fr", TaskContext())
    assert (alignment.source_words, alignment.target_words) == (EN.split(), FR.split())
    for target, row in enumerate(word_weights(translator, EN, FR, "fr")):
        links = [(source, weight) for source, own, weight in alignment.links if own == target]
        assert links[0] == (row.argmax(), pytest.approx(row.max(), abs=1e-4))
        assert links == sorted(links, key=lambda link: -link[1])
        assert {source for source, _ in links} >= {
            source for source, weight in enumerate(row) if weight >= MIN_WEIGHT
        }


def test_blank_texts_have_no_links(translator: Translator) -> None:
    blank, half = align_pairs(translator, [("", " "), (EN, "")], "fr", TaskContext())
    assert blank.links == half.links == []


def test_words_are_counted_through_concatenated_texts() -> None:
    one = Alignment(source_words=["a", "b"], target_words=["x"], links=[(1, 0, 0.7)])
    assert concatenated([one, one]) == Alignment(
        source_words=["a", "b", "a", "b"],
        target_words=["x", "x"],
        links=[(1, 0, 0.7), (3, 1, 0.7)],
    )
    assert concatenated([]).links == []


def test_canceled_request_aligns_nothing_more(translator: Translator) -> None:
    context = TaskContext()
    context.cancel()
    arguments = align.Arguments(pairs=[(EN, FR)], to="fr")
    with pytest.raises(Canceled):
        align.run(translator, arguments, context)


def test_tasks_observe_the_model_where_they_need_its_weights() -> None:
    assert align.observes(align.Arguments(pairs=[]))
    assert look_task.observes(look_task.Arguments(text=""))
    assert translate.observes(translate.Arguments(texts=[], alignment=True))
    assert not translate.observes(translate.Arguments(texts=[]))


def test_attention_is_that_of_the_given_translation(translator: Translator) -> None:
    arguments = look_task.Arguments(text=EN, to="fr", output=FR, title="run")
    result = look_task.run(translator, arguments, TaskContext())
    picture = look(translator, EN, "fr", "run", output=FR)
    assert result.model_dump() == History.of(picture).to_json()
    assert picture.output == FR
    assert look(translator, EN, "fr").output != FR


def test_output_is_for_translators(runs: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="no translation to show"):
        look(regard.load(runs["lm"]), EN, output=FR)
