"""Text ⇄ ids: byte-pair encoding by the `tokenizers` library, with a tag for each language.

Words, punctuation and elided articles are apart before merging begins, so that a piece never
crosses from one word to the next: "L'animal n'a pas bougé." → ▁L' animal ▁n' a ▁pas ▁bougé .
"""

import hashlib
from collections.abc import Iterable, Sequence

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from regard.errors import RunError

PAD, UNKNOWN, START, END = "<pad>", "<unk>", "<s>", "</s>"
SPECIAL = (PAD, UNKNOWN, START, END)
SPACE = "▁"

# French elisions stand alone (l', qu'); English contractions stay whole (didn't); so does est-ce.
_WORDS = Regex(
    rf"{SPACE}?(?i:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quelqu)'(?=\p{{L}})"
    rf"|{SPACE}?[\p{{L}}\p{{M}}\p{{N}}]+(?:['’-][\p{{L}}\p{{M}}\p{{N}}]+)*"
    rf"|{SPACE}?[^\s\p{{L}}\p{{M}}\p{{N}}{SPACE}]"
)


class Tokenizer:
    """A trained tokeniser. Ids of the special pieces are attributes: pad, unknown, start, end."""

    def __init__(self, backend: Backend) -> None:
        # A user who types "</s>" means those four characters, not the end of the sentence.
        backend.encode_special_tokens = True
        self._backend = backend
        self.pad, self.unknown, self.start, self.end = map(self._id, SPECIAL)

    @classmethod
    def train(
        cls, lines: Iterable[str], vocabulary: int, languages: Sequence[str] = ()
    ) -> "Tokenizer":
        backend = Backend(models.BPE(unk_token=UNKNOWN))
        backend.normalizer = normalizers.Sequence(
            [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
        )
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=False),
                pre_tokenizers.Split(_WORDS, behavior="isolated"),
            ]
        )
        backend.decoder = decoders.Metaspace(SPACE, prepend_scheme="always")
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[*SPECIAL, *map(tag, languages)],
            show_progress=False,
        )
        backend.train_from_iterator(lines, trainer)
        return cls(backend)

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        try:
            return cls(Backend.from_str(text))
        except Exception as error:  # the library raises nothing more precise
            raise RunError(f"tokenizer.json cannot be understood ({error}).") from None

    def to_json(self) -> str:
        return self._backend.to_str(pretty=True)

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    @property
    def fingerprint(self) -> str:
        """Changes whenever a piece or its id does."""
        return hashlib.sha256("\n".join(self.vocabulary()).encode()).hexdigest()[:16]

    def vocabulary(self) -> list[str]:
        """All pieces, in the order of their ids."""
        vocabulary = self._backend.get_vocab(with_added_tokens=True)
        return sorted(vocabulary, key=vocabulary.__getitem__)

    def language(self, name: str) -> int:
        """The id of the tag that asks for this language."""
        return self._id(tag(name))

    def _id(self, piece: str) -> int:
        found = self._backend.token_to_id(piece)
        if found is None:
            raise RunError(
                f"the tokenizer has no piece {piece}; it is not one made for this model."
            )
        return int(found)

    def encode(self, text: str) -> list[int]:
        return list(self._backend.encode(text, add_special_tokens=False).ids)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Many texts at once, in parallel where the machine has more than one core."""
        encoded = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [list(each.ids) for each in encoded]

    def unseen(self, text: str) -> list[str]:
        """The characters of a text that were not in the training text, each once."""
        encoded = self._backend.encode(text, add_special_tokens=False)
        spans = [
            span
            for span, piece in zip(encoded.offsets, encoded.ids, strict=True)
            if piece == self.unknown
        ]
        characters = "".join(text[start:end] for start, end in spans)
        return list(dict.fromkeys(character for character in characters if character.strip()))

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._backend.decode(list(ids), skip_special_tokens=True)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each id as a person would read it: "▁chat" is "chat"."""
        return [self.readable(self._backend.id_to_token(each) or "") for each in ids]

    @staticmethod
    def readable(piece: str) -> str:
        return piece.removeprefix(SPACE) or SPACE


def tag(language: str) -> str:
    """The piece that asks for a language: <fr>."""
    return f"<{language}>"
