"""HTML and XML: texts are translated, and all markup stays."""

import re
import time
from collections.abc import Sequence
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import DataError
from regard.predictors.translator import Translation
from regard.serving.markup import MAX_TAGS, check_markup, translate_markup, visible_text

TAG = re.compile(r"<[^<>]*>")

# A dictionary in place of a model: what it does not know stays as it is.
DICTIONARY = {
    "Le chat noir dort.": "The black cat sleeps.",
    "chat noir": "black cat",
    "Il est midi.": "It is noon.",
    "Le chat noir dort. Il est midi.": "The black cat sleeps. It is noon.",
    "une souris verte": "a green mouse",
    "souris": "mouse",
    "verte": "green",
    "Je ne veux pas partir.": "I do not want to leave.",
    "LE CHAT DORT.": "THE CAT SLEEPS.",
    "Tapez ls pour lire.": "Type ls to read.",
    "Café & thé": "Coffee & tea < milk",
}
SEGMENTS = {
    "Le chat noir dort. Il est midi.": (
        ("Le chat noir dort.", "The black cat sleeps."),
        ("Il est midi.", "It is noon."),
    ),
    "LE CHAT DORT.": (("Le chat dort.", "The cat sleeps."),),
}


def by_dictionary(texts: Sequence[str]) -> list[list[Translation]]:
    """Translate texts as a translator does, without a model."""
    translations = [DICTIONARY.get(text, text) for text in texts]
    segments = [SEGMENTS.get(text, ((text, DICTIONARY.get(text, text)),)) for text in texts]
    return [
        [Translation(text, -1.0, own)] for text, own in zip(translations, segments, strict=True)
    ]


def translated(document: str) -> str:
    ((best,),) = translate_markup([document], by_dictionary)
    return best.text


@pytest.mark.parametrize(
    ("document", "translation"),
    [
        ("<p>Le chat noir dort.</p>", "<p>The black cat sleeps.</p>"),
        ("<p>Le <b>chat noir</b> dort.</p>", "<p>The <b>black cat</b> sleeps.</p>"),
        ("<p>\n  Le  chat\n noir dort. </p>\n", "<p>\n  The black cat sleeps. </p>\n"),
        (
            "<ul><li>Il est midi.<li>Le chat noir dort.</ul>",
            "<ul><li>It is noon.<li>The black cat sleeps.</ul>",
        ),
        (
            '<b title="Il est midi.">Le chat noir dort.</b> Il est midi.',
            '<b title="Il est midi.">The black cat sleeps.</b> It is noon.',
        ),
        ("une <i>souris</i> <b>verte</b>", "a <b>green</b> <i>mouse</i>"),
        ("une <i>souris <b>verte</b></i>", "a <i><b>green</b> mouse</i>"),
        ("Je ne veux <b>pas</b> partir.", "I do not want <b>to</b> leave."),  # in proportion
        ("Tapez <code>ls</code> pour lire.", "Type <code>ls</code> to read."),
        ("Le chat noir dort.<br/>Il est midi.", "The black cat sleeps.<br/>It is noon."),
        ("<p><b>LE</b> CHAT DORT.</p>", "<p><b>THE</b> CAT SLEEPS.</p>"),
        ("Caf&eacute; &amp; th&eacute;", "Coffee &amp; tea &lt; milk"),
        ("Le chat noir dort.&nbsp;", "Le chat noir dort.&nbsp;"),
        ("<item>Il est midi.</item><item>une souris verte</item>",
         "<item>It is noon.</item><item>a green mouse</item>"),
        ("une <x>souris</x> verte", "a green <x>mouse</x>"),
        ("Le <x id='1'/>chat noir dort.", "The <x id='1'/>black cat sleeps."),
    ],
)  # fmt: skip
def test_text_is_translated_and_markup_stays(document: str, translation: str) -> None:
    assert translated(document) == translation


@pytest.mark.parametrize(
    "document",
    [
        "<script>Il est midi.</script>",
        "<style>p { color: red }</style><pre>Il est midi.</pre>",
        '<p translate="no">Il est midi.</p>',
        '<div class="big notranslate">Il est <b>midi.</b></div>',
        "<textarea>Il est midi.</textarea>",
        "<!-- Il est midi. --><!DOCTYPE html><?php Il est midi. ?>",
        "<p>12:30</p> <td>…</td>",
        "<script>Il est midi.",  # it does not end
        "",
        " \n",
    ],
)
def test_what_is_not_text_is_copied(document: str) -> None:
    assert translated(document) == document


def test_text_without_markup_is_translated_as_text() -> None:
    documents = ["Le chat noir dort. ", "AT&T > 3", "1 < 2 est vrai", "  Il est midi.\n"]
    asked: list[str] = []

    def record(texts: Sequence[str]) -> list[list[Translation]]:
        asked.extend(texts)
        return by_dictionary(texts)

    translate_markup(documents, record)
    assert asked == documents


def test_alternatives_keep_their_order_and_their_tags() -> None:
    def twice(texts: Sequence[str]) -> list[list[Translation]]:
        return [[Translation(f"{text} {n}", -n, ((text, f"{text} {n}"),)) for n in (1, 2)]
                for text in texts]  # fmt: skip

    ((first, second),) = translate_markup(["<p>un <b>chat</b></p><p>ou deux</p>"], twice)
    assert first.text == "<p>un <b>chat 1</b></p><p>ou deux 1</p>"
    assert second.text == "<p>un <b>chat 2</b></p><p>ou deux 2</p>"
    assert first.score == -1


def test_each_text_is_translated_once_and_all_of_them_together() -> None:
    calls: list[Sequence[str]] = []

    def record(texts: Sequence[str]) -> list[list[Translation]]:
        calls.append(texts)
        return by_dictionary(texts)

    translate_markup(["<p>a</p><p>b</p><p>a</p>", "<p>Le <b>chat noir</b> dort.</p>"], record)
    assert calls == [["a", "b", "Le chat noir dort."], ["Le", "chat noir", "dort."]]


def test_visible_text_has_a_line_for_each_block() -> None:
    document = (
        "<h1>Il est <b>midi.</b></h1><script>x</script><p>Le chat &eacute;tait l&agrave;.</p>"
    )
    assert visible_text(document) == "Il est midi.\nLe chat était là."


def test_a_wrong_declaration_is_refused() -> None:
    with pytest.raises(DataError, match="declaration"):
        translated("<![wrong[ x")


def test_too_many_tags_are_refused() -> None:
    check_markup(["<p>" * MAX_TAGS])
    with pytest.raises(DataError, match="translate fewer at once"):
        check_markup(["<p>" * MAX_TAGS, "<p>"])


@pytest.mark.parametrize(
    "hostile",
    [
        "<!--" * 20_000,
        "<a " * 20_000,
        '<a b="' * 10_000,
        "<b>" * 20_000 + "chat" + "</b>" * 20_000,
        "<b>x</b>" * 20_000,
        "</b>" * 20_000,
        "<i><b></i></b>" * 5_000,
        "&#" * 20_000,
        "<p>" + "<b>chat" * 10_000,
        "<x" + str(list(range(3000))) + ">chat",
        "chat <b>noir</b>. " * 2_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_markup_takes_linear_time(hostile: str) -> None:
    start = time.perf_counter()
    assert tags(translated(hostile)) == tags(hostile)
    assert time.perf_counter() - start < 3


def tags(document: str) -> list[str]:
    return sorted(TAG.findall(document))


# Documents of any shape: tags that match or do not, texts, entities, comments.
NAMES = st.sampled_from(["p", "div", "b", "i", "a", "span", "code", "br", "img", "x", "li"])
WORDS = st.text("abc é\n.,!?", min_size=1, max_size=12)
PIECES = st.one_of(
    WORDS,
    st.builds("<{}>".format, NAMES),
    st.builds("</{}>".format, NAMES),
    st.builds('<{} class="k">'.format, NAMES),
    st.builds("<{}/>".format, NAMES),
    st.sampled_from(["&amp;", "&lt;", "&nbsp;", "<!-- c -->", "A&B", "chat noir"]),
)
DOCUMENTS = st.lists(PIECES, max_size=30).map("".join)


def scrambled(texts: Sequence[str]) -> list[list[Translation]]:
    """Translate words into capitals in the opposite order, sentence by sentence."""
    translations = []
    for text in texts:
        parts = [part for part in re.split(r"(?<=[.!?])", text) if part.strip()]
        segments = tuple((part, " ".join(reversed(part.upper().split()))) for part in parts)
        translations.append(
            [Translation(" ".join(target for _, target in segments), -1.0, segments)]
        )
    return translations


def is_balanced(document: str) -> bool:
    """Return whether every tag has its partner, void elements excepted."""
    stack: list[str] = []
    for tag in re.findall(r"<(/?\w+)[^<>]*?(/?)>", re.sub("<!--.*?-->", "", document)):
        name, empty = tag
        if empty or name in ("br", "img"):
            continue
        if not name.startswith("/"):
            stack.append(name)
        elif not stack or stack.pop() != name[1:]:
            return False
    return not stack


@given(DOCUMENTS)
@settings(max_examples=400, deadline=None)
def test_every_tag_is_in_the_translation(document: str) -> None:
    ((best,),) = translate_markup([document], scrambled)
    assert tags(best.text) == tags(document)
    if is_balanced(document):
        assert is_balanced(best.text)


def unchanged(texts: Sequence[str]) -> list[list[Translation]]:
    return [[Translation(text, 0.0, ((text, text),))] for text in texts]


@given(DOCUMENTS)
@settings(max_examples=200, deadline=None)
def test_text_that_does_not_change_stays(document: str) -> None:
    ((best,),) = translate_markup([document], unchanged)
    before, after = (unescape(re.sub(r"\s+|<[^<>]*>", "", text)) for text in (document, best.text))
    assert before == after


@given(st.lists(st.sampled_from(["<p>", "</p>", "<br>", "<hr/>", "mot. ", "<li>"]), max_size=20))
@settings(max_examples=100, deadline=None)
def test_blocks_keep_their_order(pieces: list[str]) -> None:
    ((best,),) = translate_markup(["".join(pieces)], scrambled)
    assert TAG.findall(best.text) == TAG.findall("".join(pieces))


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_text_is_answered(text: str) -> None:
    try:
        ((best,),) = translate_markup([text], scrambled)
    except DataError:
        return
    assert isinstance(best.text, str)
