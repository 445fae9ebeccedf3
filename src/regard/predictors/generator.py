"""A writer: continues a text word by word with a language model.

What has no room in the model's context is refused. Where a `window` on it is asked for, the last
tokens of a prompt that fit are kept, and a continuation that would pass the end of the context goes
on with the beginning forgotten.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.decoding.config import Constraints, DecodingConfig, decode
from regard.decoding.greedy import argmax, stream_tokens
from regard.decoding.sampling import Sampling
from regard.decoding.scoring import Score, score
from regard.decoding.sliding_window import SlidingWindow, retained_tokens
from regard.decoding.speculative import Drafter, DraftModel, PromptLookup, speculate
from regard.engine.select import Decodable
from regard.errors import ConfigError, DataError
from regard.evaluation.language_model import Perplexity, Piece, perplexity
from regard.models.language_model import LanguageModel
from regard.predictors.stream_text import growing

ROWS = 16  # prompts continued at a time


class TextGenerator:
    """What `regard.load` gives for a run of the language-model job."""

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        max_length: int,
        begin: Sequence[int] = (),
        bits: int = 32,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.begin = list(begin)  # what this model expects before every text
        self.decodable = Decodable(self.model, max_length, bits)

    def generate(
        self,
        prompt: str = "",
        tokens: int = 100,
        search: DecodingConfig | None = None,
        window: bool = False,
    ) -> str:
        """A continuation of a prompt, at most so many tokens long: the likeliest unless drawn."""
        return self.candidates([prompt], tokens, search or DecodingConfig(), window)[0][0]

    def candidates(
        self,
        prompts: Sequence[str],
        tokens: int = 100,
        search: DecodingConfig | None = None,
        window: bool = False,
    ) -> list[list[str]]:
        """Continuations of each prompt, best first."""
        search = search or DecodingConfig()
        asked = [self.ids(prompt, window) for prompt in prompts]
        for ids in asked:
            self._check_room(len(ids), tokens, window)
        written: list[list[str]] = [[] for _ in prompts]
        for group in _alike(asked, search):
            found = self._find([asked[i] for i in group], tokens, search, group)
            for number, hypotheses in zip(group, found, strict=True):
                text = self._after(prompts[number])
                written[number] = [text(ids) for ids in hypotheses]
        return written

    def _find(
        self,
        asked: Sequence[list[int]],
        tokens: int,
        search: DecodingConfig,
        numbers: Sequence[int],
    ) -> list[list[list[int]]]:
        """Read together what all prompts have, and let the longer ones say the rest first."""
        device = next(self.model.parameters()).device
        model = self._stepper(max(map(len, asked)), tokens)
        read = min(map(len, asked)) - 1
        together = torch.tensor([ids[: read + 1] for ids in asked], device=device)
        rest = {row: ids[read + 1 :] for row, ids in enumerate(asked) if len(ids) > read + 1}
        with torch.inference_mode():
            state = model.start()
            if read:
                _, state = model.extend(together[:, :-1], state)
        limits = [tokens + len(rest.get(row, ())) for row in range(len(asked))]
        found = decode(
            model,
            state,
            together[:, -1],
            self.tokenizer.end,
            limits,
            search,
            Constraints(prefixes=rest),
            numbers,
            together.tolist(),
        )
        return [
            [each.ids[len(rest.get(row, ())) :] for each in hypotheses]
            for row, hypotheses in enumerate(found)
        ]

    def stream(
        self,
        prompt: str = "",
        tokens: int = 100,
        sampling: Sampling | None = None,
        window: bool = False,
    ) -> Iterator[str]:
        """The continuation as it grows."""
        ids = self.ids(prompt, window)
        self._check_room(len(ids), tokens, window)
        model = self._stepper(len(ids), tokens)
        state, first = self._read(model, ids)
        words = stream_tokens(model, state, first, self.tokenizer.end, [tokens], sampling or argmax)
        yield from growing((step[0][1] for step in words), self._after(prompt))

    def speculate(
        self,
        prompt: str = "",
        tokens: int = 100,
        draft: "TextGenerator | None" = None,
        sampling: Sampling | None = None,
        count: int = 5,
        window: bool = False,
    ) -> Iterator[str]:
        """The same continuation, guessed at by a smaller model, or by what the prompt repeats."""
        ids = self.ids(prompt, window)
        if window and len(ids) + tokens > self.max_length:
            raise ConfigError(
                f"guesses cannot go on past the context of {self.max_length:,} tokens: ask for at "
                f"most {self.max_length - len(ids):,} more, or do without guessing."
            )
        self._check_room(len(ids), tokens)
        model = self.decodable.now
        state, first = self._read(model, ids)
        guesser: Drafter = PromptLookup(prompt=ids[:-1])
        if draft is not None:
            self._check_same_words(draft)
            small, same = draft.decodable.now, draft.ids(prompt, window)
            draft._check_room(len(same), tokens)
            guesser = DraftModel(small, draft._read(small, same)[0])
        words = speculate(
            model, state, int(first), self.tokenizer.end, tokens, guesser, count, sampling
        )
        yield from growing(words, self._after(prompt))

    def score(self, texts: Sequence[str]) -> list[Score]:
        """How likely the model finds each text, and that it ends there."""
        model = self.decodable.now
        scores = []
        for text in texts:
            ids = self._whole(text)
            if len(ids) >= self.max_length:
                raise DataError(
                    f"the text has {len(ids):,} tokens and this model takes at most "
                    f"{self.max_length:,}, its end among them: shorten it, or have it judged in "
                    f"windows (`regard evaluate`)."
                )
            first = torch.tensor([ids[0]])
            scores += score(model, model.start(), first, self.tokenizer.end, [ids[1:]])
        return scores

    def perplexity(
        self, text: str, context: int | None = None, stride: int | None = None
    ) -> Perplexity:
        """How well it foretells a text of any length: see `evaluation/perplexity.py`."""
        return perplexity(self, [Piece(text)], context, stride)

    def ids(self, text: str, window: bool = False) -> list[int]:
        """What this model is given for a text: refuses what it cannot take, or keeps the last of
        it that fits."""
        ids = self._whole(text)
        if len(ids) <= self.max_length:
            return ids
        if not window:
            raise DataError(
                f"the text has {len(ids):,} tokens and this model takes at most "
                f"{self.max_length:,}: shorten it, or let its beginning be forgotten "
                f"(--sliding-window; in Python, window=True)."
            )
        return [*self.begin, *ids[len(ids) - self.max_length + len(self.begin) :]]

    def forgotten(self, prompt: str, tokens: int) -> str:
        """What a window on this prompt and so many tokens leaves out, in a sentence; "" if all is
        seen."""
        given, most = len(self._whole(prompt)), self.max_length
        cut = f"the last {most:,} of the prompt's {given:,} tokens are kept" if given > most else ""
        slides = (
            f"the window of {most:,} tokens slides, and each new one is found from the last "
            f"{retained_tokens(most, len(self.begin)):,} at least"
            if min(given, most) + tokens > most
            else ""
        )
        return "; ".join(each for each in (cut, slides) if each)

    def _whole(self, text: str) -> list[int]:
        ids = [*self.begin, *self.tokenizer.encode(text)]
        return ids or [self.tokenizer.end]  # a new text begins where another has ended

    def _stepper(self, given: int, tokens: int) -> Any:
        """The model, or one that slides where that many more would not fit."""
        if given + tokens <= self.max_length:
            return self.decodable.now
        return SlidingWindow(self.decodable.now, self.max_length, self.begin)

    def _read(self, model: Any, ids: list[int]) -> tuple[Any, torch.Tensor]:
        """The state after all of the prompt but its last word, and that word."""
        *said, last = ids
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            state = model.start()
            if said:
                _, state = model.extend(torch.tensor([said], device=device), state)
        return state, torch.tensor([last], device=device)

    def _check_room(self, given: int, tokens: int, window: bool = False) -> None:
        if given + tokens > self.max_length and not window:
            raise DataError(
                f"the prompt has {given:,} tokens, {tokens:,} more are asked for, and this "
                f"model takes {self.max_length:,} in all: shorten the prompt, ask for less, or let "
                f"the beginning be forgotten (--sliding-window; in Python, window=True)."
            )

    def _after(self, prompt: str) -> Callable[[Sequence[int]], str]:
        """How ids that follow a prompt are written down."""
        return self.tokenizer.decode_after(self.tokenizer.encode(prompt))

    def _check_same_words(self, draft: "TextGenerator") -> None:
        if draft.tokenizer.fingerprint != self.tokenizer.fingerprint:
            raise DataError(
                "the draft model has another vocabulary: both models must be trained with the same "
                "tokenizer."
            )


def _alike(asked: Sequence[list[int]], search: DecodingConfig) -> list[list[int]]:
    """Which prompts to continue together: of like length, and of one length where beams search."""
    order = sorted(range(len(asked)), key=lambda i: len(asked[i]))
    groups: list[list[int]] = []
    for number in order:
        fits = bool(groups) and len(groups[-1]) < ROWS
        if fits and (search.beam > 1 or search.return_scores):
            fits = len(asked[groups[-1][0]]) == len(asked[number])
        if not fits:
            groups.append([])
        groups[-1].append(number)
    return groups
