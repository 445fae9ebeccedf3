"""Fill blanks with a masked language model: the most likely tokens for each blank of a text.

Each blank is one token of the vocabulary, predicted without knowing the other blanks. A blank is
written [MASK], <mask> or ___.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.data.tokenizers.tokenizer import Tokenizer, require_text
from regard.data.tokenizers.word_boundaries import WordBoundaries
from regard.decoding.ranges import check_count
from regard.decoding.scoring import Score
from regard.engine.numerics import Scores, highest, log_softmax
from regard.engine.stored_model import StoredModel
from regard.errors import DataError
from regard.predictors.base import named_texts
from regard.predictors.encoder import BATCH, EncoderPredictor

if TYPE_CHECKING:
    from regard.models.masked_lm import MaskedLM

CONTINUES = "…"  # before a piece that continues a word

BLANK = re.compile(r"\[MASK\]|<mask>|_{3,}", re.IGNORECASE)
SPACES = {" ", "▁", "Ġ", "<0x20>"}

# Punctuation, which every tokenizer separates from words; the first that is not in a text is used.
_SIGNS = "‖‗⁂⁌⁍⁜⁕⁘⁙⁛"


@dataclass(frozen=True)
class Filling:
    """Text for a blank, its probability, and the id of the token if it is one."""

    text: str
    probability: float
    token: int | None = None


class MaskFiller(EncoderPredictor["MaskedLM"]):
    """Predictor of a masked-lm run: fill blanks, score texts by pseudo-likelihood.

    Args:
        model: The trained model.
        tokenizer: The tokenizer it was trained with.
        max_length: Maximum number of tokens of a text.
        bits: 32, or 8 or 4 for integer weights (default: 32).
    """

    def __init__(
        self,
        model: "MaskedLM | StoredModel",
        tokenizer: Tokenizer,
        max_length: int,
        bits: int = 32,
    ) -> None:
        super().__init__(model, tokenizer, max_length, bits)
        self.mask = tokenizer.special_id("mask")
        self._boundaries = WordBoundaries(tokenizer)

    def fill(self, text: str, top: int = 5, number: int = 1) -> list[list[Filling]]:
        """Return the most likely tokens for each blank, best first.

        Args:
            text: A text with at least one blank: [MASK], <mask> or ___.
            top: Number of candidates for each blank (default: 5).
            number: Number of the text in error messages (default: 1).

        Returns:
            One list for each blank, with `top` candidates or as many as the vocabulary has.

        Raises:
            DataError: The text has no blank, or too many tokens for the model.
            ConfigError: `top` is below 1.

        Example:
            >>> import regard
            >>> filler = regard.load_mask_filler("runs/masked")
            >>> for filling in filler.fill("the cat ___ on the mat", top=1)[0]:
            ...     print(filling.text)
            sits
        """
        check_count("top", top, 1)
        require_blank(text, number)
        ids, special = self.encode(text, number), sorted(self.tokenizer.special_ids)
        blanks = [position for position, token in enumerate(ids) if token == self.mask]
        log_probs = log_softmax(self._logits([ids], [blanks]))[:, : len(self.tokenizer)]
        log_probs[:, special] = -np.inf  # special tokens are never the answer
        best = highest(log_probs, min(top, log_probs.shape[1] - len(special)))
        return [
            [
                Filling(self._readable(token), math.exp(p), token)
                for p, token in zip(*blank, strict=True)
            ]
            for blank in zip(*(part.tolist() for part in best), strict=True)
        ]

    def encode(self, text: str, number: int = 1) -> list[int]:
        """Return the model's input ids for a text, with the mask token in each blank.

        Args:
            text: A text with or without blanks.
            number: Number of the text in error messages (default: 1).

        Raises:
            DataError: The text has too many tokens for the model.

        Example:
            >>> import regard
            >>> filler = regard.load_mask_filler("runs/masked")
            >>> filler.mask in filler.encode("the cat ___ on the mat")
            True
        """
        first, *rest = around_blanks(text, number, self.tokenizer, self._boundaries)
        ids = [self.tokenizer.start, *first]
        for part in rest:
            ids += [self.mask, *part]
        return self._check_length([*ids, self.tokenizer.end], number)

    def score(self, texts: list[str]) -> list[Score]:
        """Return the pseudo-log-likelihood of texts (Salazar et al. 2020).

        Each token is masked in turn and predicted from all others.

        Args:
            texts: Texts without blanks.

        Returns:
            The log-probabilities of each text's tokens.

        Raises:
            DataError: A text is empty, or has too many tokens for the model.

        Example:
            >>> import regard
            >>> filler = regard.load_mask_filler("runs/masked")
            >>> right, wrong = filler.score(["the cat sits", "sits the cat"])
            >>> right.mean > wrong.mean
            True
        """
        texts, _ = named_texts(texts)
        rows = [self._encode_text(text, number) for number, text in enumerate(texts, start=1)]
        for number, ids in enumerate(rows, start=1):
            if len(ids) == 2:  # start and end token
                raise DataError(f"text {number} is empty: there is no text to score.")
        return [self._score(ids) for ids in rows]

    def _score(self, ids: list[int]) -> Score:
        log_probs: list[float] = []
        for start in range(1, len(ids) - 1, BATCH):
            masked = range(start, min(start + BATCH, len(ids) - 1))
            rows = [[*ids[:i], self.mask, *ids[i + 1 :]] for i in masked]
            log_p = log_softmax(self._logits(rows, [[i] for i in masked]))
            targets = [ids[i] for i in masked]
            log_probs += log_p[np.arange(len(masked)), targets].tolist()
        return Score(tuple(log_probs))

    def _logits(self, rows: Sequence[list[int]], positions: Sequence[list[int]]) -> Scores:
        """Return the logits (N, V) at N positions of rows of one length."""
        if (fast := self._fast) is not None:
            return fast.token_logits(rows, positions)
        import torch

        indices = [row for row, own in enumerate(positions) for _ in own]
        columns = [position for own in positions for position in own]
        with torch.inference_mode():
            logits = self.model(torch.tensor(rows, device=self.device))[indices, columns]
        array: Scores = logits.float().cpu().numpy()
        return array

    def _readable(self, token: int) -> str:
        (piece,) = self.tokenizer.pieces([token])
        continues = self._boundaries.pieces_hold_spaces and not self._boundaries.begins_word[token]
        if continues and piece[-1:].isalnum():
            return CONTINUES + piece.removeprefix("##")
        return piece


def around_blanks(
    text: str, number: int, tokenizer: Tokenizer, boundaries: WordBoundaries
) -> list[list[int]]:
    """Return the ids before the first blank, between it and the next … and after the last.

    Without a blank they are one list. A tokenizer splits a word by its neighbors and its space, so
    the parts around a blank cannot be encoded by themselves: the whole text is, with a sign in each
    blank; then the signs are removed, with the space that belongs to the missing word.
    """
    blanks = len(BLANK.findall(text))
    if not blanks:
        return [tokenizer.encode(text)]
    sign = next((sign for sign in _SIGNS if sign not in text), "")
    marked = BLANK.sub(sign, text)
    pieces = tokenizer.vocabulary()
    parts: list[list[int]] = [[]]
    for token, start, end in tokenizer.spans(marked):
        if sign not in marked[start:end]:
            parts[-1].append(token)
        elif (passed := marked.count(sign, 0, end)) >= len(parts):  # the first of the sign's pieces
            if boundaries.pieces_hold_spaces and parts[-1] and pieces[parts[-1][-1]] in SPACES:
                parts[-1].pop()
            parts += [[] for _ in range(passed - len(parts) + 1)]
    if not sign or len(parts) != blanks + 1:
        raise DataError(f"text {number}: this model's tokenizer cannot locate its blanks.")
    return parts


def require_blank(text: str, number: int) -> None:
    """Refuse a text without a blank."""
    require_text(text, f"text {number}")
    if not BLANK.search(text):
        raise DataError(
            f"text {number} has no blank: write [MASK], <mask> or ___ where something is missing."
        )
