"""Translate HTML and XML: text is translated, markup stays.

    <p>Le <b>chat</b> dort.</p>  →  <p>The <b>cat</b> sleeps.</p>

Each text between block elements, such as <p>, is translated as a whole. Inline elements, such as
<b>, stay around the words that they were around (`inline_tags.py`). Tags, attributes and comments
are copied as they are; scripts, styles, code, preformatted text, and elements with translate="no"
or the class "notranslate" are copied with their content. A character that is written as an entity
in the source is written so in the translation.
"""

from collections.abc import Callable, Mapping, Sequence

from regard.errors import DataError
from regard.predictors.translator import Translation
from regard.serving.inline_tags import Pieces, pieces_to_translate, place_tags
from regard.serving.markup_parser import BlockText, Part, parse

MAX_TAGS = 50_000

Translate = Callable[[Sequence[str]], Sequence[Sequence[Translation]]]  # best first, of each text
Candidates = Mapping[str, Sequence[Translation]]  # of each text


def translate_markup(
    documents: Sequence[str], translate: Translate, translate_pieces: Translate | None = None
) -> list[list[Translation]]:
    """Translate documents in HTML or XML.

    Args:
        documents: The documents, or fragments of them.
        translate: Translates texts, with their segments.
        translate_pieces: Translates parts of sentences, which place inline tags; each of its
            translations is tried, so more of them place more tags (default: `translate`).

    Returns:
        One or more translations of each document, best first, without segments.

    Raises:
        DataError: A document has markup that cannot be parsed.
    """
    parsed = [parse(document) for document in documents]
    blocks = [block for parts in parsed for block in _blocks(parts)]
    candidates = _translated([block.text for block in blocks], translate)
    pieces = [
        piece
        for block in blocks
        for candidate in candidates[block.text]
        for piece in pieces_to_translate(block.tagged, candidate.text, candidate.segments)
    ]
    by_piece = {
        piece: [candidate.text for candidate in own]
        for piece, own in _translated(pieces, translate_pieces or translate).items()
    }
    return [_filled(parts, candidates, by_piece) for parts in parsed]


def check_markup(documents: Sequence[str]) -> None:
    """Refuse documents that take seconds to parse.

    Raises:
        DataError: They have too many tags.
    """
    tags = sum(document.count("<") for document in documents)
    if tags > MAX_TAGS:
        raise DataError(
            f"there are {tags:,} tags, more than {MAX_TAGS:,}: translate fewer at once."
        )


def visible_text(document: str) -> str:
    """Return the text of a document that is translated, a line for each block.

    Raises:
        DataError: The document has markup that cannot be parsed.
    """
    return "\n".join(block.text for block in _blocks(parse(document)))


def _blocks(parts: Sequence[Part]) -> list[BlockText]:
    return [part for part in parts if isinstance(part, BlockText)]


def _translated(texts: Sequence[str], translate: Translate) -> dict[str, Sequence[Translation]]:
    """Return the translations of texts, of which each is translated once."""
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, translate(distinct), strict=True)) if distinct else {}


def _filled(parts: Sequence[Part], candidates: Candidates, pieces: Pieces) -> list[Translation]:
    """Return the translations of a document: of each text the best, then the second best …"""
    of_blocks = [candidates[block.text] for block in _blocks(parts)]
    by_markup: dict[str, Translation] = {}
    for rank in range(max(map(len, of_blocks), default=1)):
        ranked = [own[min(rank, len(own) - 1)] for own in of_blocks]
        markup = _with_translations(parts, ranked, pieces)
        finished = all(translation.finished for translation in ranked)
        by_markup.setdefault(markup, Translation(markup, _mean_score(ranked), (), finished))
    return list(by_markup.values())


def _with_translations(
    parts: Sequence[Part], translations: Sequence[Translation], pieces: Pieces
) -> str:
    """Return a document with translations in place of its texts."""
    following = iter(translations)
    return "".join(
        part if isinstance(part, str) else _translated_block(part, next(following), pieces)
        for part in parts
    )


def _translated_block(block: BlockText, translation: Translation, pieces: Pieces) -> str:
    tagged, text, segments = block.tagged, translation.text, translation.segments
    return block.before + place_tags(tagged, text, segments, pieces, block.escaped) + block.after


def _mean_score(translations: Sequence[Translation]) -> float:
    """Return the mean of scores, each weighted by the length of its text."""
    sizes = [len(translation.text) for translation in translations]
    total = sum(
        size * translation.score for size, translation in zip(sizes, translations, strict=True)
    )
    return total / (sum(sizes) or 1)
