"""Adapters: a few new weights beside those of a trained model, one file a kind."""
