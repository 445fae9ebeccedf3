"""Decoding on a CPU from packed weights: native/engine.cpp, and the doors to it."""
