"""Attention kinds, masks and the KV cache. One file a kind; read `reference.py` first."""
