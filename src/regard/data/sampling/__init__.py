"""Sampling: the order of examples, computed from (seed, epoch, index)."""
