"""Run llama.cpp as an engine of the benchmark of language models."""

import statistics
from operator import itemgetter
from typing import Any

from common import Decode, Work, run

CONTEXT = 320  # tokens of prompt and continuation, at most
rates: list[float] = []  # tokens a second of the first sequence after its prompt, by call


def load(work: Work) -> Decode:
    import xllamacpp
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{work.model}/tokenizer.json")
    params = xllamacpp.CommonParams()
    params.model.path = f"{work.model}/{work.bits}.gguf"
    params.n_parallel, params.n_ctx = work.batch, CONTEXT * work.batch
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = work.threads * work.workers
    params.cache_prompt, params.cache_ram_mib, params.verbosity = False, 0, -1
    if work.bits == 32:  # float32 throughout, for a comparison of the tokens
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server = xllamacpp.Server(params)
    settings = {"n_predict": work.tokens, "ignore_eos": True, "cache_prompt": False}
    settings |= {"samplers": ["top_k"], "top_k": 1}  # greedy

    def generate(lines: list[str]) -> list[str]:
        """Compute all prompts at once; no HTTP: the server is called in this process."""
        prompts = [tokenizer.encode(line).ids for line in lines]
        answer = server.handle_completions({"prompt": prompts, **settings})
        rates.append(answer["timings"]["predicted_per_second"])
        return [choice["text"] for choice in sorted(answer["choices"], key=itemgetter("index"))]

    return generate


def details() -> dict[str, Any]:
    """Return the median rate, by llama.cpp's own clock."""
    return {"own_rate": statistics.median(rates)}


if __name__ == "__main__":
    run(load, details)
