"""A writer: continues a text word by word with a language model."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from regard.data.tokenizer import Tokenizer
from regard.decoding.sampling import Sampling
from regard.decoding.scoring import Score, score
from regard.decoding.search import Search, Wishes, find
from regard.decoding.speculative import Draft, Guesser, Lookup, speculate
from regard.decoding.spelling import growing
from regard.decoding.stream import likeliest, stream
from regard.engine.choice import Decodable
from regard.errors import DataError
from regard.models.language_model import LanguageModel

ROWS = 16  # prompts continued at a time


class Writer:
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

    def generate(self, prompt: str = "", tokens: int = 100, search: Search | None = None) -> str:
        """A continuation of a prompt, at most so many tokens long: the likeliest unless drawn."""
        return self.candidates([prompt], tokens, search or Search())[0][0]

    def candidates(
        self, prompts: Sequence[str], tokens: int = 100, search: Search | None = None
    ) -> list[list[str]]:
        """Continuations of each prompt, best first."""
        search = search or Search()
        asked = [self.ids(prompt) for prompt in prompts]
        for ids in asked:
            self._check_room(len(ids), tokens)
        written: list[list[str]] = [[] for _ in prompts]
        for group in _alike(asked, search):
            found = self._find([asked[i] for i in group], tokens, search, group)
            for number, hypotheses in zip(group, found, strict=True):
                text = self._after(prompts[number])
                written[number] = [text(ids) for ids in hypotheses]
        return written

    def _find(
        self, asked: Sequence[list[int]], tokens: int, search: Search, numbers: Sequence[int]
    ) -> list[list[list[int]]]:
        """Read together what all prompts have, and let the longer ones say the rest first."""
        model, device = self.decodable.now, next(self.model.parameters()).device
        read = min(map(len, asked)) - 1
        together = torch.tensor([ids[: read + 1] for ids in asked], device=device)
        rest = {row: ids[read + 1 :] for row, ids in enumerate(asked) if len(ids) > read + 1}
        with torch.inference_mode():
            state = model.start()
            if read:
                _, state = model.extend(together[:, :-1], state)
        limits = [tokens + len(rest.get(row, ())) for row in range(len(asked))]
        found = find(
            model,
            state,
            together[:, -1],
            self.tokenizer.end,
            limits,
            search,
            Wishes(prefix=rest),
            numbers,
            together.tolist(),
        )
        return [
            [each.ids[len(rest.get(row, ())) :] for each in hypotheses]
            for row, hypotheses in enumerate(found)
        ]

    def stream(
        self, prompt: str = "", tokens: int = 100, sampling: Sampling | None = None
    ) -> Iterator[str]:
        """The continuation as it grows."""
        model = self.decodable.now
        state, first, _ = self._read(model, prompt, tokens)
        words = stream(model, state, first, self.tokenizer.end, [tokens], sampling or likeliest)
        yield from growing((step[0][1] for step in words), self._after(prompt))

    def speculate(
        self,
        prompt: str = "",
        tokens: int = 100,
        draft: "Writer | None" = None,
        sampling: Sampling | None = None,
        count: int = 5,
    ) -> Iterator[str]:
        """The same continuation, guessed at by a smaller model, or by what the prompt repeats."""
        model = self.decodable.now
        state, first, said = self._read(model, prompt, tokens)
        guesser: Guesser = Lookup(prompt=said)
        if draft is not None:
            self._check_same_words(draft)
            small = draft.decodable.now
            guesser = Draft(small, draft._read(small, prompt, tokens)[0])
        words = speculate(
            model, state, int(first), self.tokenizer.end, tokens, guesser, count, sampling
        )
        yield from growing(words, self._after(prompt))

    def score(self, texts: Sequence[str]) -> list[Score]:
        """How likely the model finds each text, and that it ends there."""
        model = self.decodable.now
        scores = []
        for text in texts:
            ids = self.ids(text)
            self._check_room(len(ids), 1)
            first = torch.tensor([ids[0]])
            scores += score(model, model.start(), first, self.tokenizer.end, [ids[1:]])
        return scores

    def ids(self, text: str) -> list[int]:
        """What this model is given for a text; refuses what it cannot take."""
        ids = [*self.begin, *self.tokenizer.encode(text)]
        if len(ids) > self.max_length:
            raise DataError(
                f"the text has {len(ids):,} tokens and this model takes at most "
                f"{self.max_length:,}: shorten it."
            )
        return ids or [self.tokenizer.end]  # a new text begins where another has ended

    def _read(self, model: Any, prompt: str, tokens: int) -> tuple[Any, torch.Tensor, list[int]]:
        """The state after all of the prompt but its last word, that word, and the words before."""
        *said, last = self.ids(prompt)
        self._check_room(len(said) + 1, tokens)
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            state = model.start()
            if said:
                _, state = model.extend(torch.tensor([said], device=device), state)
        return state, torch.tensor([last], device=device), said

    def _check_room(self, given: int, tokens: int) -> None:
        if given + tokens > self.max_length:
            raise DataError(
                f"the prompt has {given:,} tokens, {tokens:,} more are asked for, and this "
                f"model takes {self.max_length:,} in all: shorten the prompt, or ask for less."
            )

    def _after(self, prompt: str) -> Callable[[Sequence[int]], str]:
        """How ids that follow a prompt are written down."""
        return self.tokenizer.decode_after(self.tokenizer.encode(prompt))

    def _check_same_words(self, draft: "Writer") -> None:
        if draft.tokenizer.fingerprint != self.tokenizer.fingerprint:
            raise DataError(
                "the draft model has another vocabulary: both models must be trained with the same "
                "tokenizer."
            )


def _alike(asked: Sequence[list[int]], search: Search) -> list[list[int]]:
    """Which prompts to continue together: of like length, and of one length where beams search."""
    order = sorted(range(len(asked)), key=lambda i: len(asked[i]))
    groups: list[list[int]] = []
    for number in order:
        fits = bool(groups) and len(groups[-1]) < ROWS
        if fits and (search.beam > 1 or search.scored):
            fits = len(asked[groups[-1][0]]) == len(asked[number])
        if not fits:
            groups.append([])
        groups[-1].append(number)
    return groups
