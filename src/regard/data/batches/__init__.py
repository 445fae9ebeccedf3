"""Batches: rows of the token store as padded tensors, one module for each record type and task."""
