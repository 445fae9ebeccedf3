"""Initialization of a model from another run's weights or from word vectors."""
