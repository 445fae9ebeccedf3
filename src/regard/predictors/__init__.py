"""Predictors: a trained model with its tokenizer, ready for its task."""
