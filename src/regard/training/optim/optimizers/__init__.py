"""Optimizers, one file a kind."""
