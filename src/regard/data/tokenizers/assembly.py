"""What stands around the model of a tokeniser: how text is cut before it and joined after it.

A piece holds its own space, " chat", so that pieces need only be joined to be text again, and no
character has to stand for another. Words, punctuation and elided articles are apart before any
model sees them, so that a piece never crosses from one to the next, and no text is ever taken
for a special piece, whose "<" would stand alone:

    L'animal n'a pas bougé.  →  " L'" "animal" " n'" "a" " pas" " bougé" "."
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.data.tokenizers.tokenizer import BYTES, SPECIAL, UNKNOWN, Tokenizer, tag
from regard.errors import ConfigError

Spaces = Literal["collapse", "keep"]

# French elisions stand alone (l', qu'); English contractions stay whole (didn't); so does est-ce.
# Of a run of spaces, which only `keep` leaves, the last goes with what follows.
_WORDS = Regex(
    r" ?(?i:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quelqu)'(?=\p{L})"
    r"| ?[\p{L}\p{M}\p{N}]+(?:['’-][\p{L}\p{M}\p{N}]+)*"
    r"| ?[^\s\p{L}\p{M}\p{N}]"
    r"|\s+(?!\S)|\s+"
)


def first_pieces(special_tokens: Sequence[str]) -> list[str]:
    """The pieces that every vocabulary begins with."""
    return [*SPECIAL, *tags(special_tokens), *BYTES]


def tags(special_tokens: Sequence[str]) -> list[str]:
    """A piece for each mark, none of which may be another piece already."""
    for mark in special_tokens:
        if tag(mark) in (*SPECIAL, *BYTES):
            raise ConfigError(
                f"'{mark}' cannot name a language: {tag(mark)} is another piece; choose "
                f"another name."
            )
    return list(dict.fromkeys(map(tag, special_tokens)))


def spelling(
    pieces: Iterable[str], merges: Sequence[tuple[str, str]] = (), whole_words: bool = False
) -> models.BPE:
    """A model that merges characters by its rules, having first looked up the word if it should.

    A character without a piece is spelt in bytes.
    """
    return models.BPE(
        {piece: each for each, piece in enumerate(pieces)},
        merges,
        unk_token=UNKNOWN,
        byte_fallback=True,
        ignore_merges=whole_words,
    )


def whole() -> Backend:
    """Nothing is cut and nothing changed: the model sees the text as it is."""
    backend = Backend(models.BPE())
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return backend


def cut_at_words(spaces: Spaces) -> Backend:
    """The model sees words, each with the space before it."""
    backend = whole()
    backend.pre_tokenizer = pre_tokenizers.Split(_WORDS, behavior="isolated")
    if spaces == "collapse":
        # A word is the same piece wherever it stands: the first gets a space as well.
        backend.normalizer = normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Replace(Regex(r"\s+"), " "),
                normalizers.Strip(),
                normalizers.Prepend(" "),
            ]
        )
        backend.decoder = decoders.Sequence([backend.decoder, decoders.Strip(" ", left=1)])
    return backend


def finish(backend: Backend, special_tokens: Sequence[str]) -> Tokenizer:
    """With its model in place: no text may become a special piece, nor the other way about."""
    backend.add_special_tokens([*SPECIAL, *tags(special_tokens)])
    return Tokenizer(backend)
