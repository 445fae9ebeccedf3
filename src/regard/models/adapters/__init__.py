"""Adapters: few trainable parameters added to a frozen model, one file a kind."""
