"""Positional representations, one file a kind; `base.py` shows where a kind can add order."""
