"""Models from before the Transformer, for comparison, one file a kind."""
