"""Fill blanks of several tokens with a span-corruption model (T5), which generates the spans.

    source      Thank you <extra_0> me to your party <extra_1> week </s>
    generated   <s> <extra_0> for inviting <extra_1> last <extra_2>

A span ends at the sentinel of the next one. Blanks are filled from left to right: each is generated
after the best filling of those before it.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.data.batches.spans import sentinel
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries
from regard.decoding.beam import beam_search
from regard.decoding.logits_processors import SuppressPhrases
from regard.decoding.ranges import MAX_BEAM, check_count
from regard.engine.select import EngineModel
from regard.engine.stored_model import StoredModel
from regard.errors import DataError
from regard.predictors.base import BasePredictor
from regard.predictors.mask_filler import Filling, around_blanks, require_blank

if TYPE_CHECKING:
    from regard.models.encoder_decoder import EncoderDecoder

MAX_SPAN = 16  # tokens of a blank
WIDTH = 5  # of the beam, or the number of candidates if that is more


class SpanFiller(BasePredictor["EncoderDecoder"]):
    """Predictor of a span-corruption run: fill blanks of one or more words.

    Args:
        model: The trained model.
        tokenizer: The tokenizer it was trained with.
        max_length: Maximum number of tokens of a source or target.
        sentinels: Number of sentinel tokens: one more than the blanks of a text.
        bits: 32, or 8 or 4 for integer weights (default: 32).
    """

    def __init__(
        self,
        model: "EncoderDecoder | StoredModel",
        tokenizer: Tokenizer,
        max_length: int,
        sentinels: int,
        bits: int = 32,
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        self.engine_model = EngineModel(self._model, max_length, bits)
        self.sentinels = [tokenizer.special_id(sentinel(number)) for number in range(sentinels)]
        self._boundaries = WordBoundaries(tokenizer)

    def fill(self, text: str, top: int = 5, number: int = 1) -> list[list[Filling]]:
        """Return the most likely spans for each blank, best first.

        Args:
            text: A text with at least one blank: [MASK], <mask> or ___.
            top: Number of candidates for each blank, from 1 to 1,000 (default: 5).
            number: Number of the text in error messages (default: 1).

        Returns:
            One list for each blank, with at most `top` candidates.

        Raises:
            DataError: The text has no blank, more blanks than the model has sentinels, or too many
                tokens for the model.
            ConfigError: `top` is out of range.

        Example:
            >>> import regard
            >>> filler = regard.load_span_filler("runs/spans")
            >>> blanks = filler.fill("the cat ___ the mat", top=3)
            >>> len(blanks), len(blanks[0]) <= 3
            (1, True)
        """
        check_count("top", top, 1, MAX_BEAM)
        require_blank(text, number)
        return [fillings for fillings, _ in self.spans(self.encode(text, number), top)]

    def spans(self, source: Sequence[int], top: int) -> list[tuple[list[Filling], list[int]]]:
        """Return the candidates for each blank of a source, and the ids of the best.

        Args:
            source: Ids of `encode`.
            top: Number of candidates for each blank.

        Raises:
            DataError: The spans together are longer than the model's maximum.

        Example:
            >>> import regard
            >>> filler = regard.load_span_filler("runs/spans")
            >>> [(fillings, ids)] = filler.spans(filler.encode("the cat ___ the mat"), top=1)
            >>> all(0 <= token < len(filler.tokenizer) for token in ids)
            True
        """
        check_count("top", top, 1, MAX_BEAM)
        blanks = sum(token in set(self.sentinels) for token in source)
        generated, spans = [self.tokenizer.start], []
        for blank in range(blanks):
            generated.append(self.sentinels[blank])
            fillings, best = self._search(source, generated, self.sentinels[blank + 1], top)
            spans.append((fillings, best))
            generated += best
        return spans

    def encode(self, text: str, number: int = 1) -> list[int]:
        """Return the model's input ids for a text, with a sentinel in each blank.

        Args:
            text: A text with or without blanks.
            number: Number of the text in error messages (default: 1).

        Raises:
            DataError: The text has more blanks than the model has sentinels, or too many tokens.

        Example:
            >>> import regard
            >>> filler = regard.load_span_filler("runs/spans")
            >>> filler.sentinels[0] in filler.encode("the cat ___ the mat")
            True
        """
        first, *rest = around_blanks(text, number, self.tokenizer, self._boundaries)
        if len(rest) >= len(self.sentinels):
            raise DataError(
                f"text {number} has {len(rest)} blanks and this model takes "
                f"{len(self.sentinels) - 1}: leave fewer."
            )
        ids = list(first)
        for token, part in zip(self.sentinels, rest, strict=False):
            ids += [token, *part]
        return self._check_length([*ids, self.tokenizer.end], number)

    def _search(
        self, source: Sequence[int], generated: Sequence[int], end: int, top: int
    ) -> tuple[list[Filling], list[int]]:
        """Return candidates from `generated` up to the sentinel `end`, and the best one's ids."""
        model, row, prompt = self.engine_model.current, np.array([source]), np.array([generated])
        state = model.start(row, np.ones(row.shape, dtype=bool))
        state = model.prefill(prompt[:, :-1], state)
        limit = min(MAX_SPAN, self.max_length - len(generated) - 1)
        if limit < 1:
            raise DataError(
                f"this model generates at most {self.max_length:,} tokens, which the first blanks "
                f"have used up: leave fewer."
            )
        suppressed = [[token] for token in sorted(self.tokenizer.special_ids) if token != end]
        width = max(WIDTH, top) + 1  # one of them may be the empty span
        processors = [SuppressPhrases(suppressed)]
        (hypotheses,) = beam_search(
            model, state, prompt[0, -1:], end, [limit], width, 0.0, processors
        )
        spans = [hypothesis for hypothesis in hypotheses if hypothesis.ids]
        probs: dict[str, float] = {}
        for span in spans:  # several sequences of ids may be the same text
            text = self.tokenizer.decode(span.ids).strip()
            probs[text] = probs.get(text, 0.0) + math.exp(span.score)
        ranked = sorted(probs.items(), key=lambda item: -item[1])[:top]
        return [Filling(*item) for item in ranked], spans[0].ids if spans else []
