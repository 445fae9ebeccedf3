"""Data: sources of text, filters, tokenizers, the token store, sampling, and batches."""
