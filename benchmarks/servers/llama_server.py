"""Serve llama.cpp with its own HTTP server, in C++, which batches continuously."""

import signal

import xllamacpp
from common import Settings

SLOTS = 64  # sequences in a batch
CONTEXT = 128  # tokens of prompt and continuation, at most
CONNECTIONS = 272  # each takes a thread while it is open


def main() -> None:
    settings = Settings.from_arguments()
    params = xllamacpp.CommonParams()
    params.model.path = f"{settings.model}/{settings.bits}.gguf"
    params.hostnames, params.port, params.n_threads_http = ["127.0.0.1"], settings.port, CONNECTIONS
    params.n_parallel, params.n_ctx = SLOTS, CONTEXT * SLOTS
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = settings.threads
    params.cache_prompt, params.cache_ram_mib, params.verbosity = False, 0, -1
    if settings.bits == 32:  # float32 throughout, for a comparison of the tokens
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server = xllamacpp.Server(params)
    while server.listening_address:
        signal.pause()


if __name__ == "__main__":
    main()
