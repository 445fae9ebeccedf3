"""Pipeline around the model of a tokenizer: how text is split before it and joined after it.

A piece contains its space, " chat", so that joined pieces are text again and no character has to
represent another. Words, punctuation and elided articles are separated before the model, so that a
piece never crosses from one to the next, and no text is encoded as a special token, because its "<"
is separated:

    L'animal n'a pas bougé.  →  " L'" "animal" " n'" "a" " pas" " bougé" "."
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.data.tokenizers.tokenizer import BYTES, SPECIAL, UNKNOWN, Tokenizer, special_piece
from regard.errors import ConfigError

Spaces = Literal["collapse", "keep"]

# French elisions are separate (l', qu'); English contractions stay whole (didn't); so does est-ce.
# Of a run of spaces, which only `keep` leaves, the last is part of the following word.
_WORDS = Regex(
    r" ?(?i:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quelqu)'(?=\p{L})"
    r"| ?[\p{L}\p{M}\p{N}]+(?:['’-][\p{L}\p{M}\p{N}]+)*"
    r"| ?[^\s\p{L}\p{M}\p{N}]"
    r"|\s+(?!\S)|\s+"
)


def initial_vocabulary(special_tokens: Sequence[str]) -> list[str]:
    """Return the pieces that every vocabulary begins with: special tokens, tags, bytes."""
    return [*SPECIAL, *special_pieces(special_tokens), *BYTES]


def special_pieces(names: Sequence[str]) -> list[str]:
    """Return a piece for each name, each once; raises ConfigError where it is another piece."""
    for name in names:
        if special_piece(name) in (*SPECIAL, *BYTES):
            raise ConfigError(
                f"'{name}' cannot name a language: {special_piece(name)} is another piece; choose "
                f"another name."
            )
    return list(dict.fromkeys(map(special_piece, names)))


def byte_fallback_bpe(
    pieces: Iterable[str], merges: Sequence[tuple[str, str]] = (), whole_words: bool = False
) -> models.BPE:
    """Return a BPE model that spells characters without a piece in bytes.

    With `whole_words`, a word that is a piece is looked up before any merge.
    """
    return models.BPE(
        {piece: number for number, piece in enumerate(pieces)},
        merges,
        unk_token=UNKNOWN,
        byte_fallback=True,
        ignore_merges=whole_words,
    )


def raw_backend() -> Backend:
    """Return a backend whose model sees the text unchanged and unsplit."""
    backend = Backend(models.BPE())
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return backend


def word_backend(spaces: Spaces) -> Backend:
    """Return a backend whose model sees words, each with the space before it."""
    backend = raw_backend()
    backend.pre_tokenizer = pre_tokenizers.Split(_WORDS, behavior="isolated")
    if spaces == "collapse":
        # A word is the same piece everywhere: the first one gets a space as well.
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


def finalize(backend: Backend, special_tokens: Sequence[str]) -> Tokenizer:
    """Register the special tokens of a backend with a trained model and return its tokenizer."""
    backend.add_special_tokens([*SPECIAL, *special_pieces(special_tokens)])
    return Tokenizer(backend)
