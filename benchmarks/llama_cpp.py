"""Compare the decoding of language models with llama.cpp (GGUF) on the same random weights.

    python benchmarks/llama_cpp.py --write
    python benchmarks/llama_cpp.py --smoke      a small model and few tokens: does every engine run?

The speed depends on the shape of a model and on the types of its weights, not on their values, so
the weights are random, and those of the end token such that it is never generated. Every engine
runs in its own process, one after the other, in several rounds. Run it on an idle machine.
"""

import argparse
import random
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import torch
import xllamacpp
from gguf import GGMLQuantizationType as Type
from gguf.quants import quantize

from engine_process import run_engine
from random_run import word_tokenizer, write_random_run
from regard import run_folder
from regard.interchange.exports import ctranslate2
from regard.native.library import ISA
from report import (
    describe_machine,
    isa_name,
    machine,
    summary,
    table,
    with_stored_rows,
    write_results,
)

AVX2 = "avx2"
PROMPT, THREADS, CONTEXT = 32, 2, 320
GAIN = 2.0  # of the random matrices: with larger ones, rounding decides about the tokens
EPS, BASE = 1e-5, 10_000.0


@dataclass(frozen=True)
class Shape:
    name: str
    dim: int
    heads: int
    kv_heads: int
    ffn_dim: int
    layers: int
    vocabulary: int

    def settings(self) -> dict[str, Any]:
        """Return the model section of a recipe: the settings of Llama."""
        return {
            "kind": "language-model",
            "dim": self.dim,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "ffn_dim": self.ffn_dim,
            "layers": self.layers,
            "max_length": CONTEXT,
            "position": {"kind": "rotary", "pairs": "adjacent", "base": BASE},
            "norm": {"kind": "rms", "eps": EPS},
            "feed_forward": {"kind": "gated", "activation": "silu", "bias": False},
            "bias": False,
            "scale_embedding": False,
        }


SHAPES = (
    Shape("6 layers, D 384", 384, 6, 6, 1536, 6, 8000),
    Shape("30 layers, D 576 (SmolLM2-135M)", 576, 9, 3, 1536, 30, 49152),
)
SMOKE = Shape("smoke", 64, 4, 2, 128, 2, 500)


@dataclass(frozen=True)
class Engine:
    script: str
    bits: int
    isa: str = ""  # instruction set of Regard's engine (default: its choice)
    rival: str = ""  # the engine of the speedup

    @property
    def environment(self) -> dict[str, str]:
        return {ISA: self.isa} if self.isa else {}


ENGINES = {
    "Regard": Engine("regard_engine.py", 32, rival="llama.cpp F32"),
    "Regard int8": Engine("regard_engine.py", 8, rival="llama.cpp Q8_0"),
    "Regard int4": Engine("regard_engine.py", 4, rival="llama.cpp Q4_0"),
    "Regard, AVX2": Engine("regard_engine.py", 32, AVX2, "llama.cpp F32"),
    "Regard int8, AVX2": Engine("regard_engine.py", 8, AVX2, "llama.cpp Q8_0"),
    "Regard int4, AVX2": Engine("regard_engine.py", 4, AVX2, "llama.cpp Q4_0"),
    "llama.cpp F32": Engine("llama_engine.py", 32),
    "llama.cpp Q8_0": Engine("llama_engine.py", 8),
    "llama.cpp Q4_0": Engine("llama_engine.py", 4),
    "CTranslate2": Engine("ctranslate.py", 32),
    "CTranslate2 int8": Engine("ctranslate.py", 8),
}
SUMMARY = {"float32": "Regard", "8 bits": "Regard int8", "4 bits": "Regard int4"}
INTRODUCTION = """## Language models beside llama.cpp

Models of Llama's shape with the same random weights in every engine (the speed does not depend on
their values): greedy decoding after prompts of 32 tokens, 2 threads, each engine in its own
process, medians over rounds. Tokens a second are those of all sequences, in a time that includes
the prompts; *after the prompt* is the rate of the first sequence by llama.cpp's own clock, times
the number of sequences. llama.cpp is called in its process, without HTTP, and stores keys and
values in half precision, as is its default, but with F32 weights in float32, as Regard and
CTranslate2 do. Where its wheel is not compiled for the instruction set of the machine, *Regard,
AVX2* is the comparison of engines with the same instructions. Q8_0 has a scale for each group of
32 inputs, Regard int8 for each output; Q4_0 and Regard int4 for each group of 32, and 8 bits in
the output layer, which is the embedding. *Same*: part of the tokens before the first that differs
from those of Regard in float32. Speedup: over llama.cpp with as many bits. Memory: after the last
call, and peak."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--only", default="", help="measure only rows whose names contain this")
    parser.add_argument("--smoke", action="store_true", help="a small model, once")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.tokens = 1, 8
    options.engines = _engine_names(options.engines)
    measured = list(_rows(options))
    if options.smoke:
        return
    result = with_stored_rows("llama_cpp", measured)
    section = describe(result)
    print(section)
    if options.write:
        write_results("llama_cpp", result, section)


def _engine_names(chosen: list[str]) -> list[str]:
    """Return the chosen engines; those with kernels for AVX2 where Regard chooses better ones."""
    isa = machine()["isa"]
    better = isa.startswith("avx") and isa != AVX2
    return [name for name in chosen if better or not ENGINES[name].isa]


def _rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for shape in [SMOKE] if options.smoke else SHAPES:
        counts = [n for n in (1, 16) if options.only in _row_name(shape, n)]
        if not counts:
            continue
        with tempfile.TemporaryDirectory() as folder:
            formats = write_models(shape, Path(folder))
            for count in counts:
                yield _measured(shape, count, formats, options, Path(folder))


def _row_name(shape: Shape, sequences: int) -> str:
    return f"{shape.name}, {sequences} sequence{'s' * (sequences > 1)}"


def _measured(
    shape: Shape,
    sequences: int,
    formats: Mapping[str, Path],
    options: argparse.Namespace,
    folder: Path,
) -> dict[str, Any]:
    work = {
        "lines": prompts(shape, max(sequences, 2)),
        "batch": sequences,
        "threads": THREADS,
        "tokens": options.tokens,
        "seconds": 0 if options.smoke else 5,
    }
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in options.engines}
    for _ in range(options.rounds):
        for name in options.engines:
            engine = ENGINES[name]
            settings = {**work, "model": str(formats[engine.script]), "bits": engine.bits}
            runs[name].append(run_engine(engine.script, settings, folder, engine.environment))
    expected = runs.get("Regard", [{}])[0].get("outputs")
    engines = {
        name: _summary(results, sequences, options.tokens, expected)
        for name, results in runs.items()
    }
    for name, engine in engines.items():
        print(f"{_row_name(shape, sequences)}: {name}: {engine}", flush=True)
    return {
        "name": _row_name(shape, sequences),
        "tokens": options.tokens,
        "rounds": options.rounds,
        "xllamacpp": xllamacpp.__version__,
        "llama.cpp": xllamacpp.get_system_info(),
        "engines": engines,
    }


def prompts(shape: Shape, count: int) -> list[str]:
    """Return texts of PROMPT tokens."""
    draw = random.Random(0)
    words = range(4, shape.vocabulary)
    return [" ".join(f"w{draw.choice(words)}" for _ in range(PROMPT)) for _ in range(count)]


def _summary(
    runs: list[dict[str, Any]], sequences: int, tokens: int, expected: list[str] | None
) -> dict[str, Any]:
    """Return medians over the rounds."""
    keys = ("lines_per_second", "memory_in_use", "peak_memory", "load_seconds", "own_rate")
    median = {key: statistics.median(run[key] for run in runs) for key in keys if key in runs[0]}
    median["tokens_per_second"] = median.pop("lines_per_second") * tokens
    if "own_rate" in median:
        median["after_the_prompt"] = median.pop("own_rate") * sequences
    if expected is not None:
        outputs = runs[0]["outputs"]
        pairs = zip(outputs, expected, strict=True)
        median["same"] = statistics.mean(_same(*map(str.split, pair)) for pair in pairs)
    return median


def _same(tokens: list[str], expected: list[str]) -> float:
    """Return the part of the tokens before the first that differs."""
    pairs = zip(tokens, expected, strict=False)
    differing = (n for n, (token, other) in enumerate(pairs) if token != other)
    return next(differing, len(expected)) / len(expected)


def write_models(shape: Shape, folder: Path) -> dict[str, Path]:
    """Write the model of a shape in the format of each engine; return the folders by script."""
    tokenizer = word_tokenizer(shape.vocabulary)
    paths = {name: folder / name for name in ("regard", "gguf", "ctranslate2")}
    weights = write_random_run(
        paths["regard"], "language-model", shape.settings(), tokenizer, GAIN, never_special=True
    )
    ctranslate2.export(run_folder.read(paths["regard"]), paths["ctranslate2"])
    paths["gguf"].mkdir()
    names = tokenizer.vocabulary()
    for bits in (32, 8, 4):
        _write_gguf(paths["gguf"] / f"{bits}.gguf", shape, weights, names, bits)
    for name in ("gguf", "ctranslate2"):
        (paths[name] / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    return {
        "regard_engine.py": paths["regard"],
        "llama_engine.py": paths["gguf"],
        "ctranslate.py": paths["ctranslate2"],
    }


def _write_gguf(
    path: Path, shape: Shape, weights: Mapping[str, torch.Tensor], tokens: list[str], bits: int
) -> None:
    """Write a GGUF file: the matrices as F32, Q8_0 or Q4_0, the norms as F32."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ffn_dim)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.dim // shape.heads)
    writer.add_rope_freq_base(BASE)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_tokenizer_model("gpt2")  # for the text of continuations; prompts are ids
    writer.add_token_list([f"Ġ{token}" if token[0] == "w" else token for token in tokens])
    writer.add_token_merges(["w 4"])  # one is required
    writer.add_eos_token_id(tokens.index("</s>"))
    writer.add_bos_token_id(tokens.index("<s>"))
    for name, ours in _gguf_names(shape.layers).items():
        array = weights[ours].numpy()
        kind = _type(name, bits)
        stored = array if kind == Type.F32 else quantize(array, kind)
        writer.add_tensor(name, stored, raw_dtype=None if kind == Type.F32 else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _type(name: str, bits: int) -> Type:
    """Return the type of a tensor; the embedding is the output layer, which has 8 bits or more."""
    if bits == 32 or "norm" in name:
        return Type.F32
    return Type.Q8_0 if bits == 8 or name == "token_embd.weight" else Type.Q4_0


def _gguf_names(layers: int) -> dict[str, str]:
    """Return our names of the tensors by those of GGUF."""
    names = {
        "token_embd.weight": "decoder.embedding.tokens.weight",
        "output_norm.weight": "decoder.norm.gain",
    }
    parts = {
        "attn_norm": "attention_residual.norm.gain",
        "attn_q": "attention.w_q.weight",
        "attn_k": "attention.w_k.weight",
        "attn_v": "attention.w_v.weight",
        "attn_output": "attention.w_o.weight",
        "ffn_norm": "feed_forward_residual.norm.gain",
        "ffn_gate": "feed_forward.gate_proj.weight",
        "ffn_up": "feed_forward.up_proj.weight",
        "ffn_down": "feed_forward.down_proj.weight",
    }
    for layer in range(layers):
        for theirs, ours in parts.items():
            names[f"blk.{layer}.{theirs}.weight"] = f"decoder.blocks.{layer}.{ours}"
    return names


def describe(results: dict[str, Any]) -> str:
    """Return the section of the page: a summary, then the tables of each instruction set."""
    parts = [INTRODUCTION, summary("speedup over llama.cpp", results, SUMMARY, _with_avx2)]
    for isa, result in results.items():
        about = f"{describe_machine(result['machine'])} {_settings(result['rows'])}"
        parts.append(f"### {isa_name(isa)} beside llama.cpp\n\n{about}")
        parts += [f"#### {row['name']}\n\n{_engines(row)}" for row in result["rows"]]
    return "\n\n".join(parts)


def _settings(rows: list[dict[str, Any]]) -> str:
    """Return a sentence with what the engines were."""
    row = rows[-1]
    enabled = [word for word in row["llama.cpp"].split(" | ") if word.endswith(" = 1")]
    features = ", ".join(word.removesuffix(" = 1").removeprefix("CPU : ") for word in enabled)
    return (
        f"{row['rounds']} round(s), {row['tokens']} tokens; xllamacpp {row['xllamacpp']}, whose "
        f"llama.cpp was compiled for {features}."
    )


def _with_avx2(engines: Mapping[str, Any], name: str) -> str:
    """Return the speedup, and that of Regard's kernels for AVX2 if they were measured too."""
    avx2 = f"{name}, AVX2"
    beside = f" ({_speedup(engines, avx2)} with AVX2)" if avx2 in engines else ""
    return _speedup(engines, name) + beside


def _speedup(engines: Mapping[str, Any], name: str) -> str:
    rival = ENGINES[name].rival
    if name not in engines or rival not in engines:
        return "not measured" if rival else ""
    ratio = engines[name]["tokens_per_second"] / engines[rival]["tokens_per_second"]
    return f"**{ratio:.2f}×**"


def _engines(row: dict[str, Any]) -> str:
    head = ["engine", "tokens/s", "after the prompt", "speedup", "same", "memory"]
    lines = [
        [
            name,
            f"{engine['tokens_per_second']:,.1f}",
            f"{engine['after_the_prompt']:,.1f}" if "after_the_prompt" in engine else "",
            _speedup(row["engines"], name),
            f"{engine['same']:.0%}" if "same" in engine else "",
            f"{engine['memory_in_use'] / 1e6:,.0f} / {engine['peak_memory'] / 1e6:,.0f} MB",
        ]
        for name, engine in row["engines"].items()
    ]
    return table(head, lines)


if __name__ == "__main__":
    main()
