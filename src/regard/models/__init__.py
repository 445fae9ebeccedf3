"""Models, one file a kind. `forward` returns logits or hidden states, never a loss."""
