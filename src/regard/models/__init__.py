"""Whole models. `forward` returns logits or states, never a loss. Each kind is a file."""
