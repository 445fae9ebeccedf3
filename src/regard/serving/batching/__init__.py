"""Continuous batching: the decoding steps of all requests are computed together."""
