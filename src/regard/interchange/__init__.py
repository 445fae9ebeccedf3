"""Checkpoints of other libraries in, and ours out."""
