"""The compiled libraries: engine.cpp decodes, sparse.cpp computes sparse attention, and
processor.cpp and amx.cpp test what the processor can execute."""
