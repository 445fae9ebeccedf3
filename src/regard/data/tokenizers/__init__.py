"""Tokenizers, one file a kind."""
