"""Baselines to compare a Transformer with, one file a kind."""
