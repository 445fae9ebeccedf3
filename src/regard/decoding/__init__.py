"""Decoding algorithms: greedy decoding, sampling, beam search and speculative decoding."""
