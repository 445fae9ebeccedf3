"""Text ⇄ ids: what a tokeniser can do, whichever kind (`tokenizers/`) made it."""

import hashlib
import json
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer as Backend

from regard.errors import RunError
from regard.run_folder import Run

PAD, UNKNOWN, START, END = "<pad>", "<unk>", "<s>", "</s>"
MASK = "<mask>"
SPECIAL_ROLES = ("pad", "start", "end")  # what a run may give to other pieces than the names say
SPECIAL = (PAD, UNKNOWN, START, END)
LONGEST = 4  # bytes of a character
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

# What tokenisers made elsewhere call these pieces. One piece may be start and end, as in GPT-2, but
# the padding is always its own: who never counts the padding would never learn to end.
_ELSEWHERE = {
    PAD: ("[PAD]", "<PAD>", "<|pad|>"),
    UNKNOWN: ("[UNK]", "<UNK>", "<|unk|>"),
    START: ("[CLS]", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    END: ("[SEP]", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    MASK: ("[MASK]", "<MASK>"),
}
_VISIBLE = str.maketrans({" ": "▁", "\n": "⏎", "\t": "⇥"})

# The library works in threads, and a forked process has lost them: it must not wait for them.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: os.environ.update(TOKENIZERS_PARALLELISM="false"))


class Tokenizer:
    """A finished tokeniser. Ids of the special pieces are attributes: pad, unknown, start, end."""

    def __init__(self, backend: Backend) -> None:
        # A user who types "</s>" means those four characters, not the end of the sentence.
        backend.encode_special_tokens = True
        self._backend = backend
        self._pieces = _by_id(backend.get_vocab(with_added_tokens=True))
        self.pad, self.unknown, self.end = map(self._id, (PAD, UNKNOWN, END))
        # Where there is no start, a new text begins where another has ended.
        self.start = self.end if name_of(START, backend) is None else self._id(START)
        added = backend.get_added_tokens_decoder()
        self._special = {each for each, piece in added.items() if piece.special}
        bytes_found = [each for each in map(backend.token_to_id, BYTES) if each is not None]
        self._byte_ids = bytes_found if len(bytes_found) == len(BYTES) else []
        self._bytes = {each: byte for byte, each in enumerate(self._byte_ids)}
        # Bytes stand for what has no piece, unless there are no other pieces at all.
        only_bytes = len(self) == len(self._special) + len(self._bytes)
        self._last_resort = {self.unknown} if only_bytes else {self.unknown, *self._bytes}

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        try:
            backend = Backend.from_str(text)
        except Exception as error:  # the library raises nothing more precise
            raise RunError(f"tokenizer.json cannot be understood ({error}).") from None
        return cls(backend)

    @classmethod
    def from_run(cls, run: Run) -> "Tokenizer":
        """That of a run, in which a role may be another piece's than the names say."""
        tokenizer = cls.from_json(run.tokenizer)
        for role in SPECIAL_ROLES:
            setattr(tokenizer, role, run.details.get(role, getattr(tokenizer, role)))
        return tokenizer

    @property
    def renamed(self) -> dict[str, int]:
        """Roles that are another piece's than the names say: for a run."""
        named = Tokenizer.from_json(self.to_json())
        return {
            role: getattr(self, role)
            for role in SPECIAL_ROLES
            if getattr(self, role) != getattr(named, role)
        }

    def to_json(self) -> str:
        return self._backend.to_str(pretty=True)

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def fingerprint(self) -> str:
        """Changes whenever a piece or its id does."""
        return hashlib.sha256(json.dumps(self._pieces).encode()).hexdigest()[:16]

    def vocabulary(self) -> list[str]:
        """All pieces, in the order of their ids; "" for an id that a foreign file leaves out."""
        return list(self._pieces)

    def special_id(self, name: str) -> int:
        """The id of the piece <name>: a language that is asked for, a mask."""
        return self._id(tag(name))

    def _id(self, piece: str) -> int:
        name = name_of(piece, self._backend)
        if name is None:
            raise RunError(
                f"the tokenizer has no piece {piece}; it is not one made for this model."
            )
        return self._pieces.index(name)

    @property
    def special(self) -> frozenset[int]:
        """Pieces that are no text: start, end, languages."""
        return frozenset(self._special)

    def encode(self, text: str) -> list[int]:
        return self._backend.encode(text, add_special_tokens=False).ids

    def spans(self, text: str) -> list[tuple[int, int, int]]:
        """Each id with the characters it stands for: id, first, end."""
        encoded = self._backend.encode(text, add_special_tokens=False)
        return [(each, *span) for each, span in zip(encoded.ids, encoded.offsets, strict=True)]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Many texts at once, in parallel where the machine has more than one core."""
        encoded = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [each.ids for each in encoded]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the pieces that are not special."""
        kept = [each for each in ids if each not in self._special]
        return self._backend.decode(list(self._mended(kept)))

    def decode_after(self, before: Sequence[int]) -> Callable[[Sequence[int]], str]:
        """What ids add to a text when they follow others: a space that they begin with too."""
        tail = before[-LONGEST:]
        said = self.decode(tail)

        def decode(ids: Sequence[int]) -> str:
            whole = self.decode([*tail, *ids])
            return whole[len(said) :] if whole.startswith(said) else self.decode(ids)

        return decode

    def _mended(self, ids: Iterable[int]) -> Iterator[int]:
        """Bytes that are not UTF-8, such as half a character, become �; the library would give up
        all bytes around them as well."""
        for is_byte, run in groupby(ids, self._bytes.__contains__):
            if is_byte:
                yield from (self._byte_ids[byte] for byte in self._spelt(run).encode())
            else:
                yield from run

    def _spelt(self, ids: Iterable[int]) -> str:
        return bytes(map(self._bytes.__getitem__, ids)).decode("utf-8", errors="replace")

    def words(self, text: str) -> list[int]:
        """For each id of a text the number of the word, between spaces, that it is part of."""
        ends = [found.end() for found in re.finditer(r"\S+", text)]
        offsets = self._backend.encode(text, add_special_tokens=False).offsets
        # A piece may have the space before a word in it, but not the word after.
        return [min(bisect_left(ends, max(end, 1)), len(ends) - 1) for _, end in offsets]

    def located(self, text: str) -> list[tuple[int, int, int]]:
        """The ids of a text, each with where in it the piece begins and ends."""
        encoded = self._backend.encode(text, add_special_tokens=False)
        places = zip(encoded.ids, encoded.offsets, strict=True)
        return [(each, start, end) for each, (start, end) in places]

    def unknown_characters(self, text: str) -> list[str]:
        """The characters of a text that must be spelt in bytes or are unknown, each once."""
        encoded = self._backend.encode(text, add_special_tokens=False)
        spans = [
            (each, text[start:end])
            for each, (start, end) in zip(encoded.ids, encoded.offsets, strict=True)
            if each in self._last_resort
        ]
        unknown = "".join(span for each, span in spans if each == self.unknown)
        spelt = self._spelt(each for each, _ in spans if each != self.unknown)
        return list(dict.fromkeys(each for each in unknown + spelt if each.strip()))

    def unknown_share(self, rows: Iterable[npt.ArrayLike]) -> float:
        """Which part of the ids, 0 to 1, is unknown or spells in bytes what has no piece."""
        strange = np.zeros(len(self), dtype=bool)
        strange[list(self._last_resort)] = True
        found = total = 0
        for row in rows:
            ids = np.asarray(row, dtype=np.int64)
            found, total = found + int(strange[ids].sum()), total + ids.size
        return found / total if total else 0.0

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id as a person would read it."""
        return [self.readable(self._pieces[each]) for each in ids]

    def readable(self, piece: str) -> str:
        """Without its space, however that is marked (▁chat, Ġchat); bare spaces made visible."""
        decoder = self._backend.decoder
        text = decoder.decode([piece]) if decoder else piece
        if "�" in text:  # one byte of several
            return piece
        return text.strip() or (text or piece).translate(_VISIBLE)


def tag(mark: str) -> str:
    """The piece of a mark: <fr> asks for a language, <mask> stands for what is to be guessed."""
    return f"<{mark}>"


def name_of(piece: str, backend: Backend) -> str | None:
    """What a backend calls a special piece, if it has it."""
    names = [piece, *_ELSEWHERE.get(piece, ())]
    if piece.startswith("<extra_"):
        names.append(piece.replace("<extra_", "<extra_id_"))  # T5's
    if piece == UNKNOWN:
        names.insert(0, getattr(backend.model, "unk_token", None) or piece)
    return next((name for name in names if backend.token_to_id(name) is not None), None)


def _by_id(vocabulary: dict[str, int]) -> list[str]:
    pieces = [""] * (max(vocabulary.values()) + 1)
    for piece, each in vocabulary.items():
        pieces[each] = piece
    return pieces
