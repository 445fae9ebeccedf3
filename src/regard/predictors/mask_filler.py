"""A filler: a text with blanks to the words that may stand in them, by a masked model.

Each blank is one piece of the vocabulary, and is guessed without knowing the other blanks.
"""

import torch

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries
from regard.decoding.scoring import Score
from regard.models.masked_lm import MaskedLM
from regard.predictors.blanks import Filling, around_blanks, require_blank
from regard.predictors.encode_text import refuse_long, whole_text

BATCH = 64
GOES_ON = "…"  # before a piece that goes on with the word before it


class MaskFiller:
    """What `regard.load` gives for a run of the masked job."""

    def __init__(self, model: MaskedLM, tokenizer: Tokenizer, max_length: int) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.mask = tokenizer.special_id("mask")
        self._borders = WordBoundaries(tokenizer)

    @torch.inference_mode()
    def fill(self, text: str, top: int = 5, number: int = 1) -> list[list[Filling]]:
        """For each blank ([MASK], <mask> or ___) the likeliest words, best first.

        `number` is what errors call the text.
        """
        require_blank(text, number)
        ids = torch.tensor([self.ids(text, number)], device=next(self.model.parameters()).device)
        logits = self.model(ids)[0][ids[0] == self.mask].float()
        likely = logits.softmax(-1)[:, : len(self.tokenizer)]
        likely[:, sorted(self.tokenizer.special)] = -1.0  # no words
        best = likely.topk(min(top, likely.size(-1) - len(self.tokenizer.special)))
        return [
            [Filling(self._readable(each), p) for p, each in zip(*blank, strict=True)]
            for blank in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def ids(self, text: str, number: int = 1) -> list[int]:
        """What this model is given for a text; refuses what it cannot take."""
        first, *rest = around_blanks(text, number, self.tokenizer, self._borders)
        ids = [self.tokenizer.start, *first]
        for part in rest:
            ids += [self.mask, *part]
        return refuse_long([*ids, self.tokenizer.end], number, self.max_length)

    @torch.inference_mode()
    def score(self, texts: list[str]) -> list[Score]:
        """The pseudo-likelihood of texts (Salazar et al. 2020): log p of each piece, given all
        others."""
        return [
            self._score(whole_text(text, number, self.tokenizer, self.max_length))
            for number, text in enumerate(texts, start=1)
        ]

    def _score(self, ids: list[int]) -> Score:
        device = next(self.model.parameters()).device
        whole = torch.tensor(ids, device=device)
        places = torch.arange(1, len(ids) - 1, device=device)
        found: list[float] = []
        for some in torch.split(places, BATCH):
            rows = whole.expand(len(some), -1).scatter(1, some[:, None], self.mask)
            logits = self.model(rows)[torch.arange(len(some)), some].float()
            found += logits.log_softmax(-1).gather(1, whole[some, None])[:, 0].double().tolist()
        return Score(tuple(found))

    def _readable(self, each: int) -> str:
        (word,) = self.tokenizer.pieces([each])
        goes_on = self._borders.hold_spaces and not self._borders.spaced[each]
        return GOES_ON + word.removeprefix("##") if goes_on and word[-1:].isalnum() else word
