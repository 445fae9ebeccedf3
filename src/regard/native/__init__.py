"""What is compiled: engine.cpp decodes, sparse.cpp is attention over some of the pairs."""
