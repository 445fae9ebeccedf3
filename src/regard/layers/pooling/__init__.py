"""Pooling of token states into one vector, one file a kind."""
