"""The bundled corpus: a bilingual grammar that writes French and English at once.

Nothing is downloaded and nothing is copied: every pair is built from a small lexicon by the rules
of the two languages, and either sentence of a pair determines the other.

    >>> from regard.data.bundled import corpus, street_sentences
    >>> tired, wide = street_sentences()
    >>> wide.english
    "The animal didn't cross the street because it was too wide."
    >>> wide.french
    "L'animal n'a pas traversé la rue parce qu'elle était trop large."
    >>> len(corpus(train=100, dev=10, pronouns=5).train)
    100

From the words to the sentences, the files read in this order: `spelling`, `words`, `lexicon`,
`meaning`, `french`, `english`, `phrases`; then the constructions, `statements`, `places`,
`references`, `questions` and `because`; then `grammar` and `splits`.
"""

import hashlib
from functools import cache
from importlib.resources import files

from regard.data.bundled.because import street_sentences
from regard.data.bundled.grammar import generate
from regard.data.bundled.meaning import Pair
from regard.data.bundled.splits import Corpus, corpus, is_reserved

__all__ = [
    "Corpus",
    "Pair",
    "corpus",
    "generate",
    "is_reserved",
    "source_hash",
    "street_sentences",
]


@cache
def source_hash() -> str:
    """Return the hash of the grammar's code and lexicon: with another one, pairs may differ."""
    modules = {file.name: file for file in files(__name__).iterdir() if file.name.endswith(".py")}
    digest = hashlib.blake2b(digest_size=8)
    for name, file in sorted(modules.items()):
        digest.update(f"{name}\0".encode() + file.read_bytes())
    return digest.hexdigest()
