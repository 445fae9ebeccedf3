"""Incremental decoding, shared by all models that generate token by token."""

from typing import Any, ClassVar

from torch import Tensor, nn


class Autoregressive(nn.Module):
    """A model whose decoder maps new tokens and a state to hidden states and the next state."""

    decoder: Any

    @property
    def output(self) -> nn.Linear:
        """The linear layer from hidden states (…, D) to logits (…, V)."""
        output: nn.Linear = self.decoder.output
        return output

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Decode one token per row.

        Args:
            ids: the new tokens (B,).
            state: the state before them.

        Returns:
            The logits (B, V) of the next token, and the state after `ids`.
        """
        logits, state = self.extend(ids[:, None], state)
        return logits[:, -1], state

    def extend(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Decode several tokens per row at once, as in a prefill.

        Args:
            ids: the new tokens (B, T).
            state: the state before them.

        Returns:
            The logits (B, T, V) after each of `ids`, and the state after the last.
        """
        states, state = self.decoder(ids, state)
        return self.output(states), state


class Seq2SeqModel(Autoregressive):
    """A model of target tokens given source tokens."""

    single_sequence: ClassVar[bool]  # True if source and target share one sequence

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Compute the logits of the token after each target token.

        Args:
            source: source tokens (B, S).
            source_mask: (B, S), True = a real token.
            target: target tokens (B, T), padded on the right.

        Returns:
            Logits (B, T, V).
        """
        logits: Tensor = self.output(self.states(source, source_mask, target))
        return logits

    def states(
        self, source: Tensor, source_mask: Tensor, target: Tensor, needed: Tensor | None = None
    ) -> Tensor:
        """Hidden states (B, T, D) before the output layer, for target (B, T).

        They are defined where `needed` (B, T) is True; None means everywhere.
        """
        raise NotImplementedError
