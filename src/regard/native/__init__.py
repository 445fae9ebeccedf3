"""The compiled library: engine.cpp decodes, sparse.cpp computes sparse attention, both with the
kernels of one instruction set, which dispatch.cpp chooses; amx.cpp tests whether AMX executes."""
