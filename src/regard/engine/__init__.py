"""Decoding on a CPU from packed weights: engine.cpp, and the doors to it."""
