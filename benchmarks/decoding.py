"""Compare the decoding speed with CTranslate2, OpenVINO and Hugging Face on the same weights.

    python benchmarks/decoding.py --models runs/decoding
    python benchmarks/decoding.py --smoke      random models and a few lines: does every engine run?

Missing models are trained first, for some minutes each (benchmarks/recipes/): their quality matters
little, but they must have learned to end a sentence. Every engine runs in its own process, with the
best of one or two threads and one or two workers, one engine after the other, in several rounds;
Hugging Face in the first round only. OpenVINO, which has no search of its own, is measured in
greedy translation if it is installed (pip install openvino). Run it on an idle machine.
"""

import argparse
import gzip
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sacrebleu
from tokenizers import Tokenizer

from engine_process import run_engine
from random_run import small_tokenizer, write_random_run
from regard import run_folder
from regard.interchange.exports import ctranslate2, huggingface, onnx
from report import describe_machine, isa_name, summary, table, with_stored_rows, write_results
from shared_data import DATA

HERE = Path(__file__).parent
TEST = DATA / "multi30k" / "test_2016_flickr"
EXACT = "Regard, no early stopping"  # beam search ends when no better hypothesis is possible
# Script, model format, and bits of the weights.
ENGINES: dict[str, tuple[str, str, int]] = {
    "Regard": ("regard_engine.py", "regard", 32),
    "CTranslate2": ("ctranslate.py", "ctranslate2", 32),
    "OpenVINO": ("openvino_engine.py", "onnx", 32),
    "Hugging Face": ("hugging_face.py", "huggingface", 32),
    EXACT: ("regard_engine.py", "regard", 32),
    "Regard int8": ("regard_engine.py", "regard", 8),
    "CTranslate2 int8": ("ctranslate.py", "ctranslate2", 8),
}
RIVALS = {"Regard": "CTranslate2", EXACT: "CTranslate2", "Regard int8": "CTranslate2 int8"}
SUMMARY = {"float32": "Regard", "int8": "Regard int8", "exact beam": EXACT}
NOT_MEASURED = "not measured"
SLOW = "Hugging Face"  # measured in one round, with a fifth of the lines
GRAPHS = "OpenVINO"  # computes graphs, without beam search
BEST_BATCH = 64
SINGLE_LINES = 100  # lines that are translated one by one
PROMPT = 32  # tokens of a prompt
INTRODUCTION = """## Decoding on 2 cores

The same weights in every engine, each in its own process with the best of one or two threads and
one or two workers, on one machine for each instruction set that Regard's engine chose. Speedup:
Regard over CTranslate2 with the same type of weights; *exact beam* is float32 without early
stopping. Lines are those of Multi30k's test_2016_flickr (Elliott et al. 2016, 2017), French →
English; the language model generates 256 tokens after a prompt of 32. Beam search stops after five
finished hypotheses, in CTranslate2 by default and in Regard with `early_stopping`; without it,
Regard continues until no better hypothesis is possible. Batch of 1: the first 100 of the 1,000
lines. OpenVINO computes the ONNX export with its KV cache, in greedy decoding (a script of the
benchmark chooses the tokens). Hugging Face gets a fifth of the lines. A translation has at most 60
tokens in every engine. *Same lines*: fraction of outputs equal to those of Regard in float32.
Memory: after loading (Regard packs its matrices with the first lines), and peak; *with torch*: the
process had imported it."""


@dataclass(frozen=True)
class Row:
    name: str
    model: str
    beam: int
    batch: int
    tokens: int = 0

    def settings(self, has_workers: bool) -> Iterator[dict[str, int]]:
        """Yield the ways to use two cores: one thread, two threads, or two workers."""
        if self.batch == 1:
            yield {"threads": 1, "workers": 1}
        elif has_workers:
            yield {"threads": 1, "workers": 2}
        yield {"threads": 2, "workers": 1}


def rows() -> list[Row]:
    """Return the settings to measure."""
    settings = [
        Row(f"{model}, {search}, batch of {batch}", model, beam, batch)
        for model in ("small", "base")
        for search, beam in (("greedy", 1), ("beam 5", 5))
        for batch in (1, BEST_BATCH)
    ]
    settings += [
        Row(f"language model, batch of {batch}", "language-model", 1, batch, tokens=256)
        for batch in (1, 16)
    ]
    return settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default="runs/decoding", help="the run folders")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--only", default="", help="measure only rows whose names contain this")
    parser.add_argument("--smoke", action="store_true", help="random models, a few lines, once")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    chosen = [row for row in rows() if options.only in row.name]
    if options.smoke:
        chosen = list({bool(row.tokens): row for row in chosen}.values())
        options.rounds, options.lines = 1, 8
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs" if options.smoke else options.models
        prepare = _random if options.smoke else _trained
        models = {name: prepare(name, runs) for name in dict.fromkeys(row.model for row in chosen)}
        formats = {name: _exports(path, Path(folder) / name) for name, path in models.items()}
        measured = [_measured(row, formats[row.model], options, Path(folder)) for row in chosen]
    if options.smoke:
        return
    result = with_stored_rows("decoding", measured)
    section = describe(result)
    print(section)
    if options.write:
        write_results("decoding", result, section)


def _random(name: str, folder: Path) -> Path:
    """Return the run folder of a small model with random weights."""
    task = "language-model" if name == "language-model" else "translation"
    kind = "language-model" if name == "language-model" else "encoder-decoder"
    sizes = {"dim": 32, "heads": 2, "ffn_dim": 64, "layers": 1, "max_length": 320}
    write_random_run(folder / name, task, {"kind": kind, **sizes}, small_tokenizer())
    return folder / name


def _trained(name: str, folder: Path) -> Path:
    """Return the run folder of a model; train it if it is missing."""
    run = folder / name
    if not run_folder.exists(run):
        recipe = HERE / "recipes" / f"{name}.yaml"
        subprocess.run([sys.executable, "-m", "regard", "train", recipe, "--run", run], check=True)
    return run


def _exports(run: Path, folder: Path) -> dict[str, Path]:
    """Export the weights for each engine; return the folders by format."""
    content = run_folder.read(run)
    formats = {"regard": run}
    exports = {"ctranslate2": ctranslate2.export, "huggingface": huggingface.export}
    if find_spec("openvino") is not None:
        exports["onnx"] = onnx.export
    for name, export in exports.items():
        formats[name] = folder / name
        export(content, formats[name])
        (formats[name] / "tokenizer.json").write_text(content.tokenizer, encoding="utf-8")
    return formats


def _lines(row: Row, run: Path, count: int) -> tuple[list[str], list[str]]:
    """Return the inputs, and the references if there are any."""
    if row.tokens:
        tokenizer = Tokenizer.from_file(str(run_folder.path_of(run, run_folder.TOKENIZER)))
        captions = _read(".en")
        prompts = [
            tokenizer.decode(tokenizer.encode(" ".join(captions[n : n + 8])).ids[:PROMPT])
            for n in range(0, 800, 8)
        ]
        complete = [text for text in prompts if len(tokenizer.encode(text).ids) == PROMPT]
        return complete[: max(row.batch, 4)], []
    return _read(".fr")[:count], _read(".en")[:count]


def _read(ending: str) -> list[str]:
    with gzip.open(f"{TEST}{ending}.gz", "rt", encoding="utf-8") as file:
        return file.read().removesuffix("\n").split("\n")


def _measured(
    row: Row, formats: dict[str, Path], options: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    lines, references = _lines(row, formats["regard"], options.lines)
    if row.batch == 1 and not row.tokens:
        lines, references = lines[:SINGLE_LINES], references[:SINGLE_LINES]
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in options.engines}
    for number in range(options.rounds):
        for name in options.engines:
            if (name == SLOW and number) or not _measures(name, row):
                continue
            script, file_format, bits = ENGINES[name]
            inputs = lines[: max(len(lines) // 5, row.batch)] if name == SLOW else lines
            for cores in row.settings(has_workers=name not in (SLOW, GRAPHS)):
                work = {
                    "model": str(formats[file_format]),
                    "lines": inputs,
                    "beam": row.beam,
                    "batch": row.batch,
                    "bits": bits,
                    "tokens": row.tokens,
                    "early_stopping": name != EXACT,
                    "seconds": 0 if options.smoke else 5,
                    **cores,
                }
                results[name].append({**run_engine(script, work, folder), **cores})
    engines = {name: _best(runs, references) for name, runs in results.items() if runs}
    expected = engines.get("Regard", {}).get("outputs")
    for name, engine in engines.items():
        outputs = engine.pop("outputs")
        if expected is not None:
            same = sum(a == b for a, b in zip(outputs, expected, strict=False))
            engine["same_as_regard"] = same / len(outputs)
        print(f"{row.name}: {name}: {engine}", flush=True)
    return {"name": row.name, "lines": len(lines), "engines": engines}


def _measures(engine: str, row: Row) -> bool:
    """Return whether an engine is measured in a row."""
    if engine == GRAPHS:
        return row.beam == 1 and not row.tokens and find_spec("openvino") is not None
    return engine != EXACT or row.beam > 1


def _best(results: list[dict[str, Any]], references: list[str]) -> dict[str, Any]:
    """Return the fastest number of threads and workers, by medians over the rounds."""
    by_cores: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for result in results:
        by_cores.setdefault((result["threads"], result["workers"]), []).append(result)
    medians = {
        cores: statistics.median(run["lines_per_second"] for run in runs)
        for cores, runs in by_cores.items()
    }
    fastest = max(medians, key=lambda cores: medians[cores])
    runs = by_cores[fastest]
    best: dict[str, Any] = {
        "lines_per_second": medians[fastest],
        "threads": fastest[0],
        "workers": fastest[1],
        "with_torch": runs[0]["with_torch"],
        "outputs": runs[0]["outputs"],
    }
    for key in ("median_latency", "latency_95", "memory_at_load", "peak_memory", "load_seconds"):
        if key in runs[0]:
            best[key] = statistics.median(run[key] for run in runs)
    if references and len(references) == len(runs[0]["outputs"]):
        best["bleu"] = sacrebleu.corpus_bleu(runs[0]["outputs"], [references]).score
    return best


def describe(results: dict[str, Any]) -> str:
    """Return the section of the page: a summary, then the tables of each instruction set."""
    parts = [INTRODUCTION, summary("speedup over CTranslate2", results, SUMMARY, _speedup)]
    for isa, result in results.items():
        parts.append(f"### {isa_name(isa)}\n\n{describe_machine(result['machine'])}")
        parts += [f"#### {row['name'].capitalize()}\n\n{_engines(row)}" for row in result["rows"]]
    return "\n\n".join(parts)


def _speedup(engines: Mapping[str, Any], name: str) -> str:
    """Return the speed of an engine relative to CTranslate2 with the same type of weights."""
    rival = engines.get(RIVALS.get(name, ""))
    if rival is None:
        return NOT_MEASURED if not engines else ""
    if name not in engines:
        return ""
    return f"**{engines[name]['lines_per_second'] / rival['lines_per_second']:.2f}×**"


def _engines(row: dict[str, Any]) -> str:
    head = ["engine", "lines/s", "speedup", "latency: median, 95 %", "BLEU", "same lines", "memory"]
    lines = [
        [
            name,
            f"{engine['lines_per_second']:.1f}",
            _speedup(row["engines"], name),
            _latency(engine),
            f"{engine['bleu']:.2f}" if "bleu" in engine else "",
            f"{engine.get('same_as_regard', 0):.1%}",
            _memory(engine),
        ]
        for name, engine in row["engines"].items()
    ]
    return table(head, lines)


def _memory(engine: dict[str, Any]) -> str:
    at_load, peak = engine["memory_at_load"] / 1e6, engine["peak_memory"] / 1e6
    note = ", with torch" if engine["with_torch"] else ""
    return f"{at_load:,.0f} / {peak:,.0f} MB{note}"


def _latency(engine: dict[str, Any]) -> str:
    if "median_latency" not in engine:
        return ""
    return f"{engine['median_latency'] * 1e3:.1f}, {engine['latency_95'] * 1e3:.1f} ms"


if __name__ == "__main__":
    main()
