"""Sampling: the order of examples in an epoch, and how they are grouped into batches."""
