"""Metrics and what they are computed from. A metric is a kind: one file, found by its name."""
