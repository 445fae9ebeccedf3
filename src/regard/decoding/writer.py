"""A writer: continues a text word by word with a language model."""

import torch

from regard.data.tokenizer import Tokenizer
from regard.decoding.greedy import greedy
from regard.errors import DataError
from regard.models.language_model import LanguageModel


class Writer:
    """What `regard.load` gives for a run of the language-model job."""

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, max_length: int) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length

    @torch.inference_mode()
    def generate(self, prompt: str, tokens: int = 100) -> str:
        """The likeliest continuation of a prompt, at most so many tokens long."""
        *said, last = self.tokenizer.encode(prompt) or [self.tokenizer.end]
        if len(said) + 1 + tokens > self.max_length:
            raise DataError(
                f"the prompt has {len(said) + 1:,} tokens, {tokens:,} more are asked for, and this "
                f"model takes {self.max_length:,} in all: shorten the prompt, or ask for less."
            )
        device = next(self.model.parameters()).device
        state = self.model.start()
        if said:
            state = self.model.decoder(torch.tensor([said], device=device), state)[1]
        first = torch.tensor([last], device=device)
        written = greedy(self.model, state, first, self.tokenizer.end, [tokens])
        return self.tokenizer.decode(written[0])
