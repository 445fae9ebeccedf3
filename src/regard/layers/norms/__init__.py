"""Normalization layers, one file a kind."""
