"""Batches of each shape of data."""
