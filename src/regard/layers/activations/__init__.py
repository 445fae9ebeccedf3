"""Activations, one file a kind."""
