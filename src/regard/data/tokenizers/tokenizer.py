"""The tokenizer: text ⇄ ids, the same class for all kinds."""

import hashlib
import json
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from regard.data.tokenizers.library_errors import library_errors
from regard.errors import DataError, RunError
from regard.run_folder import MAX_VOCABULARY, Run

PAD, UNKNOWN, START, END = "<pad>", "<unk>", "<s>", "</s>"
MASK = "<mask>"
SPECIAL = (PAD, UNKNOWN, START, END)
SPECIAL_ROLES = ("pad", "start", "end")  # roles that a run may assign to other pieces
ID_DETAILS = ("bos", "other_ends", "suppressed_tokens")  # further details of a run that are ids
UTF8_LENGTH = 4  # bytes of a character, at most
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

# Names of these pieces in other tokenizers. Start and end may be one piece, as in GPT-2, but the
# padding is always separate: padding is excluded from the loss, so an end that is also padding
# would never be learned.
_OTHER_NAMES = {
    PAD: ("[PAD]", "<PAD>", "<|pad|>"),
    UNKNOWN: ("[UNK]", "<UNK>", "<|unk|>"),
    START: ("[CLS]", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    END: ("[SEP]", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    MASK: ("[MASK]", "<MASK>"),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_VISIBLE = str.maketrans({" ": "▁", "\n": "⏎", "\t": "⇥"})

# The library uses threads, which a forked process does not have: it must not wait for them.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: os.environ.update(TOKENIZERS_PARALLELISM="false"))


class Tokenizer:
    """A trained tokenizer; ids of special tokens are the attributes pad, unknown, start, end."""

    def __init__(self, backend: Backend) -> None:
        # A user who types "</s>" means those four characters, not the end token.
        backend.encode_special_tokens = True
        self._backend = backend
        self._pieces = _by_id(backend.get_vocab(with_added_tokens=True))
        self.pad, self.unknown, self.end = map(self._id, (PAD, UNKNOWN, END))
        # Without a start token, a text begins with the end token of another.
        self.start = self.end if backend_name(START, backend) is None else self._id(START)
        added = backend.get_added_tokens_decoder()
        self._special_ids = {token for token, piece in added.items() if piece.special}
        byte_ids = [token for token in map(backend.token_to_id, BYTES) if token is not None]
        self._byte_ids = byte_ids if len(byte_ids) == len(BYTES) else []
        self._bytes = {token: byte for byte, token in enumerate(self._byte_ids)}
        # Bytes spell characters without a piece, unless there are no other pieces at all.
        only_bytes = len(self) == len(self._special_ids) + len(self._bytes)
        self._fallback = {self.unknown} if only_bytes else {self.unknown, *self._bytes}

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """Read tokenizer.json; raises RunError where it is damaged."""
        with library_errors(lambda why: RunError(f"tokenizer.json cannot be read ({why}).")):
            return cls(Backend.from_str(text))

    @classmethod
    def from_run(cls, run: Run, where: str) -> "Tokenizer":
        """Return the tokenizer of a run, with the roles that the run assigns to other pieces.

        Args:
            where: the run's folder, for the error message.

        Raises:
            RunError: tokenizer.json is damaged, or an id is outside the model's vocabulary.
        """
        tokenizer = cls.from_json(run.tokenizer)
        for key in (*SPECIAL_ROLES, *ID_DETAILS):
            check_ids(run.details.get(key, ()), run.vocabulary, f"{where}: details.{key}")
        for role in SPECIAL_ROLES:
            setattr(tokenizer, role, run.details.get(role, getattr(tokenizer, role)))
        tokenizer.check_fits(run.vocabulary, where)
        return tokenizer

    def check_fits(self, vocabulary: int, where: str, special: Iterable[str] = ()) -> None:
        """Refuse a tokenizer that can produce an id without a row in the model's embedding.

        A special token that has no role may be outside the vocabulary, because it never occurs in
        a text: imported tokenizers have an unknown token even if their model does not know it.

        Args:
            vocabulary: number of rows of the embedding.
            where: the file or folder, for the error message.
            special: names of further special tokens that the model uses (`special_id`).

        Raises:
            RunError: an id is outside the vocabulary.
        """
        for role in SPECIAL_ROLES:
            check_ids(getattr(self, role), vocabulary, f"{where}: the {role} token")
        for name in special:
            token = self.special_id(name)
            check_ids(token, vocabulary, f"{where}: the special token {special_piece(name)}")
        token = max(self._text_ids(), default=0)
        if token >= vocabulary:
            raise RunError(
                f"{where}: the tokenizer is larger than the model's vocabulary of {vocabulary:,} "
                f"tokens: the piece {self._pieces[token]!r} has the id {token:,}; use the "
                f"tokenizer that the model was trained with."
            )

    def _text_ids(self) -> Iterator[int]:
        """Yield the ids that a text can have."""
        yield from self._backend.get_vocab(with_added_tokens=False).values()
        added = self._backend.get_added_tokens_decoder()
        yield from (token for token in added if token not in self._special_ids)

    @property
    def role_overrides(self) -> dict[str, int]:
        """Ids of roles that are not those of the pieces' names, for the details of a run."""
        named = Tokenizer.from_json(self.to_json())
        return {
            role: getattr(self, role)
            for role in SPECIAL_ROLES
            if getattr(self, role) != getattr(named, role)
        }

    def to_json(self) -> str:
        """Return the content of tokenizer.json."""
        return self._backend.to_str(pretty=True)

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def fingerprint(self) -> str:
        """Hash of all pieces and their ids."""
        return hashlib.sha256(json.dumps(self._pieces).encode()).hexdigest()[:16]

    def vocabulary(self) -> list[str]:
        """Return all pieces by id; "" for an id that a file of another tool leaves out."""
        return list(self._pieces)

    def special_id(self, name: str) -> int:
        """Return the id of the special token <name>: a language tag, mask, a sentinel."""
        return self._id(special_piece(name))

    def _id(self, piece: str) -> int:
        name = backend_name(piece, self._backend)
        if name is None:
            raise RunError(
                f"the tokenizer has no piece {piece}; it is not one made for this model."
            )
        return self._pieces.index(name)

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that are no text: start, end, language tags …"""
        return frozenset(self._special_ids)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens; DataError for a lone surrogate."""
        return self._encoding(text).ids

    def spans(self, text: str) -> list[tuple[int, int, int]]:
        """Return each id of a text with its characters: (id, begin, end)."""
        encoded = self._encoding(text)
        return [(token, *span) for token, span in zip(encoded.ids, encoded.offsets, strict=True)]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts, in parallel where the machine has more than one core."""
        try:
            encoded = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        except TypeError:
            for text in texts:
                require_text(text)
            raise
        return [text.ids for text in encoded]

    def _encoding(self, text: str) -> Encoding:
        try:
            return self._backend.encode(text, add_special_tokens=False)
        except TypeError:  # the library says only that it is no text
            require_text(text)
            raise

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special tokens are left out."""
        kept = [token for token in ids if token not in self._special_ids]
        return self._backend.decode(list(self._repair_bytes(kept)))

    def decode_after(self, prompt: Sequence[int]) -> Callable[[Sequence[int]], str]:
        """Return a function that decodes ids as the continuation of a prompt.

        Alone, the first of the ids would lose the space that it begins with.
        """
        tail = prompt[-UTF8_LENGTH:]
        tail_text = self.decode(tail)

        def decode(ids: Sequence[int]) -> str:
            text = self.decode([*tail, *ids])
            return text[len(tail_text) :] if text.startswith(tail_text) else self.decode(ids)

        return decode

    def _repair_bytes(self, ids: Iterable[int]) -> Iterator[int]:
        """Replace bytes that are not UTF-8, such as half a character, by those of �.

        The library would also discard all bytes around them.
        """
        for is_byte, run in groupby(ids, self._bytes.__contains__):
            if is_byte:
                yield from (self._byte_ids[byte] for byte in self._bytes_text(run).encode())
            else:
                yield from run

    def _bytes_text(self, ids: Iterable[int]) -> str:
        return bytes(map(self._bytes.__getitem__, ids)).decode("utf-8", errors="replace")

    def word_numbers(self, text: str) -> list[int]:
        """Return for each id of a text the number of the word, between spaces, it is part of."""
        ends = [match.end() for match in re.finditer(r"\S+", text)]
        offsets = self._encoding(text).offsets
        # A piece may contain the space before a word, but not the word after.
        return [min(bisect_left(ends, max(end, 1)), len(ends) - 1) for _, end in offsets]

    @cached_property
    def word_continuations(self) -> npt.NDArray[np.int64]:
        """Ids of pieces that begin with a letter or a digit, not with the space of a new word."""
        begins = (piece[:1].isalnum() for piece in self._pieces)
        return np.flatnonzero(np.fromiter(begins, bool, len(self._pieces)))

    def unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that are spelled in bytes or unknown, each once."""
        fallback = [
            (token, text[begin:end])
            for token, begin, end in self.spans(text)
            if token in self._fallback
        ]
        unknown = "".join(characters for token, characters in fallback if token == self.unknown)
        spelled = self._bytes_text(token for token, _ in fallback if token != self.unknown)
        return list(
            dict.fromkeys(character for character in unknown + spelled if character.strip())
        )

    def unknown_rate(self, rows: Iterable[npt.ArrayLike]) -> float:
        """Return the fraction of ids that are unknown or bytes that spell a character."""
        is_fallback = np.zeros(len(self), dtype=bool)
        is_fallback[list(self._fallback)] = True
        count = total = 0
        for row in rows:
            ids = np.asarray(row, dtype=np.int64)
            count, total = count + int(is_fallback[ids].sum()), total + ids.size
        return count / total if total else 0.0

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as readable text."""
        return [self.readable(self._pieces[token]) for token in ids]

    def readable(self, piece: str) -> str:
        """Return a piece without its space, however marked (▁chat, Ġchat); a bare space as ▁."""
        decoder = self._backend.decoder
        text = decoder.decode([piece]) if decoder else piece
        if "�" in text:  # one byte of several
            return piece
        return text.strip() or (text or piece).translate(_VISIBLE)


def require_text(text: Any, name: str = "") -> None:
    """Refuse what is not str, or has half of a surrogate pair, which no encoding of text has."""
    if not isinstance(text, str):
        raise DataError(f"{name or 'a text'} is {type(text).__name__}, not str: give texts.")
    if not text.isascii() and (lone := _SURROGATE.search(text)):
        position = lone.start()
        excerpt = text[max(0, position - 20) : position + 20]
        raise DataError(
            f"{name or 'the text'} has a lone surrogate (U+{ord(lone[0]):04X}) at character "
            f"{position + 1:,}, in {excerpt!r}: it is half a character; remove it."
        )


def special_piece(name: str) -> str:
    """Return the piece of a special token: <fr> is a language tag, <mask> a masked token."""
    return f"<{name}>"


def backend_name(piece: str, backend: Backend) -> str | None:
    """Return a backend's name for a special piece, or None if it has none."""
    names = [piece, *_OTHER_NAMES.get(piece, ())]
    if piece.startswith("<extra_"):
        names.append(piece.replace("<extra_", "<extra_id_"))  # T5's
    if piece == UNKNOWN:
        names.insert(0, getattr(backend.model, "unk_token", None) or piece)
    return next((name for name in names if backend.token_to_id(name) is not None), None)


def check_ids(ids: Any, vocabulary: int, where: str) -> None:
    """Refuse an id, or a list of ids, that is not one of a vocabulary.

    Args:
        where: the file and key of the ids, for the error message.

    Raises:
        RunError: an id is not an integer, or is outside the vocabulary.
    """
    for token in ids if isinstance(ids, (list, tuple)) else (ids,):
        if type(token) is not int:
            raise RunError(f"{where}: an id is an integer, not {str(token)[:40]!r}.")
        if not 0 <= token < vocabulary:
            raise RunError(
                f"{where}: the id {token} is outside the model's vocabulary of {vocabulary:,} "
                f"tokens; correct it, or use the tokenizer that the model was trained with."
            )


def _by_id(vocabulary: dict[str, int]) -> list[str]:
    most = max(vocabulary.values(), default=-1)
    if not 0 <= most < MAX_VOCABULARY:
        raise RunError(
            f"the tokenizer has {len(vocabulary):,} pieces and ids up to {most}; the last id must "
            f"be below {MAX_VOCABULARY:,}."
        )
    pieces = [""] * (most + 1)
    for piece, token in vocabulary.items():
        if pieces[token]:
            both = " and ".join(map(repr, sorted([piece, pieces[token]])))
            raise RunError(f"the tokenizer's pieces {both} both have the id {token}.")
        pieces[token] = piece
    return pieces
