"""The compiled library: engine.cpp decodes, sparse.cpp computes sparse attention."""
