"""Tokenizers: one file for each kind, and the tokenizer that all kinds give."""
