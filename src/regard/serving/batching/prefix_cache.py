"""The states of prompts, so that a beginning that several prompts share is computed once.

A state is stored after every CHUNK tokens of a prompt, under a digest of all ids up to there. The
least recently used ones are dropped when they take more than the memory allowed.
"""

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from threading import Lock

from regard.engine.numerics import Ids
from regard.engine.states import FastState

CHUNK = 64  # tokens

Digest = bytes


class PrefixCache:
    """States of the beginnings of prompts.

    Args:
        max_bytes: Memory for keys and values.
        token_bytes: Memory for the keys and values of one token.
    """

    def __init__(self, max_bytes: int, token_bytes: int) -> None:
        self._max_chunks = max_bytes // (CHUNK * token_bytes)
        self._states: OrderedDict[Digest, FastState] = OrderedDict()
        self._lock = Lock()
        self.hits = self.misses = 0  # chunks

    def longest(self, digests: list[Digest]) -> tuple[int, FastState | None]:
        """Return the number of chunks of the longest beginning that is stored, and its state."""
        with self._lock:
            count = 0
            while count < len(digests) and digests[count] in self._states:
                self._states.move_to_end(digests[count])
                count += 1
            self.hits += count
            self.misses += len(digests) - count
            return count, self._states[digests[count - 1]] if count else None

    def add(self, digest: Digest, state: FastState) -> None:
        """Store the state after some chunks of a prompt."""
        with self._lock:
            self._states[digest] = state
            while len(self._states) > self._max_chunks:
                self._states.popitem(last=False)


def digests(ids: Ids) -> Iterator[Digest]:
    """Yield the digest of all ids up to the end of each whole chunk."""
    digest = b""
    for start in range(0, len(ids) - CHUNK + 1, CHUNK):
        digest = blake2b(digest + ids[start : start + CHUNK].tobytes(), digest_size=16).digest()
        yield digest
