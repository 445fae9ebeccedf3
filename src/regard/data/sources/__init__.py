"""Data sources, one file a kind."""
