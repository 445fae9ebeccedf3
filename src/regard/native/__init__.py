"""The compiled library: engine.h and sparse.h declare its functions, kernels/ has those of each
instruction set, dispatch.cpp chooses one; amx.cpp tests whether AMX executes."""
