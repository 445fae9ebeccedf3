"""A filler of blanks that may be several words, by a model that writes what was cut out.

    source   Thank you <extra_0> me to your party <extra_1> week </s>
    said     <s> <extra_0> for inviting <extra_1> last <extra_2>

A blank ends where the next one's mark is said. Blanks are filled one after the other: what is said
of each is given the best that was said of those before it.
"""

import math
from collections.abc import Sequence

import torch

from regard.data.batches.spans import sentinel
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries
from regard.decoding.beam import beam_search
from regard.decoding.logits_processors import SuppressPhrases
from regard.errors import DataError
from regard.models.encoder_decoder import EncoderDecoder
from regard.predictors.blanks import Filling, around_blanks, require_blank
from regard.predictors.encode_text import refuse_long

LONGEST = 16  # pieces in a blank, at most
WIDTH = 5  # beginnings followed at a time, or as many as are asked for


class SpanFiller:
    """What `regard.load` gives for a run of the span job."""

    def __init__(
        self, model: EncoderDecoder, tokenizer: Tokenizer, max_length: int, sentinels: int
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.sentinels = [tokenizer.special_id(sentinel(number)) for number in range(sentinels)]
        self._borders = WordBoundaries(tokenizer)

    @torch.inference_mode()
    def fill(self, text: str, top: int = 5, number: int = 1) -> list[list[Filling]]:
        """For each blank ([MASK], <mask> or ___) what may stand there, best first.

        `number` is what errors call the text.
        """
        require_blank(text, number)
        source = self.ids(text, number)
        return [found for found, _ in self.spans(source, top)]

    def spans(self, source: Sequence[int], top: int) -> list[tuple[list[Filling], list[int]]]:
        """What may stand in each blank of a source, and the ids of the best."""
        blanks = sum(each in set(self.sentinels) for each in source)
        said, found = [self.tokenizer.start], []
        for blank in range(blanks):
            said.append(self.sentinels[blank])
            fillings, best = self._search(source, said, self.sentinels[blank + 1], top)
            found.append((fillings, best))
            said += best
        return found

    def ids(self, text: str, number: int = 1) -> list[int]:
        """What this model is given for a text; refuses what it cannot take."""
        first, *rest = around_blanks(text, number, self.tokenizer, self._borders)
        if len(rest) >= len(self.sentinels):
            raise DataError(
                f"text {number} has {len(rest)} blanks and this model takes "
                f"{len(self.sentinels) - 1}: leave fewer."
            )
        ids = list(first)
        for mark, part in zip(self.sentinels, rest, strict=False):
            ids += [mark, *part]
        return refuse_long([*ids, self.tokenizer.end], number, self.max_length)

    @torch.inference_mode()
    def _search(
        self, source: Sequence[int], said: Sequence[int], end: int, top: int
    ) -> tuple[list[Filling], list[int]]:
        """What follows `said` up to the mark `end`, and the ids of the likeliest."""
        device = next(self.model.parameters()).device
        row = torch.tensor([source], device=device)
        state = self.model.start(row, torch.ones_like(row, dtype=torch.bool))
        before = torch.tensor([said], device=device)
        _, state = self.model.extend(before[:, :-1], state)
        room = min(LONGEST, self.max_length - len(said) - 1)
        if room < 1:
            raise DataError(
                f"this model says {self.max_length:,} tokens at most, which the first blanks "
                f"have used up: leave fewer."
            )
        never = [[each] for each in sorted(self.tokenizer.special) if each != end]
        width = max(WIDTH, top) + 1  # one of them may be to say nothing
        (hypotheses,) = beam_search(
            self.model, state, before[0, -1:], end, [room], width, 0.0, [SuppressPhrases(never)]
        )
        some = [each for each in hypotheses if each.ids]
        likely: dict[str, float] = {}
        for each in some:  # one text may be cut into pieces in several ways
            words = self.tokenizer.decode(each.ids).strip()
            likely[words] = likely.get(words, 0.0) + math.exp(each.score)
        ranked = sorted(likely.items(), key=lambda item: -item[1])[:top]
        return [Filling(*each) for each in ranked], some[0].ids if some else []
