"""Transformers on a CPU from packed weights: the Python interface of native/engine.h."""
