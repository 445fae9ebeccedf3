"""How fast are words decoded, beside Hugging Face and CTranslate2 with the same weights?

    python benchmarks/decoding.py --models runs/decoding

Models that are not there yet are trained first, for some minutes each (recipes/): how good they are
matters little here, that they have learned to end a sentence does. Every engine runs in a process
of its own, at its best of one thread or two and one worker or two, one engine after the other,
round after round; Hugging Face in the first round only. Run it with nothing else running.
"""

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sacrebleu
from tokenizers import Tokenizer

from regard import run_folder
from regard.interchange.exports import ctranslate2, huggingface
from report import keep, machine, table

HERE = Path(__file__).parent
TEST = HERE.parent.parent / "shared" / "data" / "multi30k" / "test_2016_flickr"
SURE = "Regard, sure of its best"  # no beam ends while a better sentence could come
# The script, the form of the model, and the bits of its weights.
ENGINES: dict[str, tuple[str, str, int]] = {
    "Regard": ("regard_engine.py", "regard", 32),
    "CTranslate2": ("ctranslate.py", "ctranslate2", 32),
    "Hugging Face": ("hugging_face.py", "huggingface", 32),
    SURE: ("regard_engine.py", "regard", 32),
    "Regard int8": ("regard_engine.py", "regard", 8),
    "CTranslate2 int8": ("ctranslate.py", "ctranslate2", 8),
}
RECIPES = ("small", "base", "writer")  # in recipes/ beside this file
RIVALS = {"Regard": "CTranslate2", SURE: "CTranslate2", "Regard int8": "CTranslate2 int8"}
SLOW = "Hugging Face"  # so much so that one round, and a fifth of the lines, tell all
BEST_BATCH = 64
ONE_BY_ONE = 100  # lines
PROMPT = 32  # tokens that a writer goes on from
INTRODUCTION = """## Decoding on 2 cores

The same weights in every engine, each in its own process at its best of one thread or two and one
worker or two. Ratios: Regard against CTranslate2 with the same kind of weights. Lines are those of
Multi30k's test_2016_flickr (Elliott et al. 2016, 2017), French → English; a writer adds 256 tokens
to a prompt of 32. A beam ends after five sentences, in CTranslate2 as it comes and in Regard by
`quick`; otherwise Regard goes on until no better sentence can come. One by one: the first 100 of
the 1,000 lines. Hugging Face is given a fifth of the lines. A translation has at most 60 tokens,
in every engine. *Same lines*: the share whose text is that of Regard in float32. Memory: after
loading, and at its peak."""


@dataclass(frozen=True)
class Row:
    name: str
    model: str
    beam: int
    batch: int
    tokens: int = 0

    def settings(self, has_workers: bool) -> Iterator[dict[str, int]]:
        """Ways to use two cores: one thread for a line, two, or two lines at a time."""
        if self.batch == 1:
            yield {"threads": 1, "workers": 1}
        elif has_workers:
            yield {"threads": 1, "workers": 2}
        yield {"threads": 2, "workers": 1}


def rows() -> list[Row]:
    found = [
        Row(f"{model}, {search}, {how}", model, beam, batch)
        for model in ("small", "base")
        for search, beam in (("greedy", 1), ("beam 5", 5))
        for how, batch in (("one by one", 1), ("together", BEST_BATCH))
    ]
    found += [
        Row(f"writer, {batch} at a time", "writer", 1, batch, tokens=256) for batch in (1, 16)
    ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True, help="a folder for run folders")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--only", default="", help="rows with this in their names")
    parser.add_argument("--write", action="store_true", help="into docs/")
    options = parser.parse_args()
    models = {
        name: _trained(name, options.models)
        for name in RECIPES
        if any(options.only in row.name and row.model == name for row in rows())
    }
    with tempfile.TemporaryDirectory() as folder:
        forms = {name: _forms(path, Path(folder) / name) for name, path in models.items()}
        measured = [
            _measured(row, forms[row.model], options, Path(folder))
            for row in rows()
            if options.only in row.name
        ]
    result = {"machine": machine(), "rows": measured}
    section = _section(result)
    print(section)
    if options.write:
        keep("decoding", result, section)


def _trained(name: str, folder: Path) -> Path:
    """The run folder of a model; trained where it is not there."""
    run = folder / name
    if not run_folder.exists(run):
        recipe = HERE / "recipes" / f"{name}.yaml"
        subprocess.run([sys.executable, "-m", "regard", "train", recipe, "--run", run], check=True)
    return run


def _forms(run: Path, folder: Path) -> dict[str, Path]:
    """The same weights as each engine takes them."""
    content = run_folder.read(run)
    forms = {"regard": run}
    for name, module in (("ctranslate2", ctranslate2), ("huggingface", huggingface)):
        forms[name] = folder / name
        module.export(content, forms[name])
        (forms[name] / "tokenizer.json").write_text(content.tokenizer, encoding="utf-8")
    return forms


def _lines(row: Row, run: Path, count: int) -> tuple[list[str], list[str]]:
    """What is given, and the references where there are any."""
    if row.tokens:
        tokenizer = Tokenizer.from_file(str(run / "tokenizer.json"))
        captions = _read(".en")
        prompts = [
            tokenizer.decode(tokenizer.encode(" ".join(captions[n : n + 8])).ids[:PROMPT])
            for n in range(0, 800, 8)
        ]
        exact = [each for each in prompts if len(tokenizer.encode(each).ids) == PROMPT]
        return exact[: max(row.batch, 4)], []
    return _read(".fr")[:count], _read(".en")[:count]


def _read(ending: str) -> list[str]:
    with gzip.open(f"{TEST}{ending}.gz", "rt", encoding="utf-8") as file:
        return file.read().removesuffix("\n").split("\n")


def _measured(
    row: Row, forms: dict[str, Path], options: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    lines, references = _lines(row, forms["regard"], options.lines)
    if row.batch == 1 and not row.tokens:
        lines, references = lines[:ONE_BY_ONE], references[:ONE_BY_ONE]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in options.engines}
    for number in range(options.rounds):
        for name in options.engines:
            if (name == SLOW and number) or (name == SURE and row.beam == 1):
                continue
            script, form, bits = ENGINES[name]
            given = lines[: max(len(lines) // 5, row.batch)] if name == SLOW else lines
            for how in row.settings(has_workers=name != SLOW):
                work = {
                    "model": str(forms[form]),
                    "lines": given,
                    "beam": row.beam,
                    "batch": row.batch,
                    "bits": bits,
                    "tokens": row.tokens,
                    "quick": name != SURE,
                    **how,
                }
                found[name].append({**_run(name, script, work, folder), **how})
    engines = {name: _best(results, references) for name, results in found.items() if results}
    ours = engines.get("Regard", {}).get("outputs")
    for name, each in engines.items():
        outputs = each.pop("outputs")
        if ours is not None:
            same = sum(a == b for a, b in zip(outputs, ours, strict=False))
            each["same_as_regard"] = same / len(outputs)
        print(f"{row.name}: {name}: {each}", flush=True)
    return {"name": row.name, "lines": len(lines), "engines": engines}


def _run(name: str, script: str, work: dict[str, Any], folder: Path) -> dict[str, Any]:
    asked, out = folder / "work.json", folder / "out.json"
    asked.write_text(json.dumps(work, ensure_ascii=False), encoding="utf-8")
    command = [sys.executable, str(HERE / "decoders" / script), str(asked), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return result


def _best(results: list[dict[str, Any]], references: list[str]) -> dict[str, Any]:
    """The better way to use the cores, each at its median over the rounds."""
    ways: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for each in results:
        ways.setdefault((each["threads"], each["workers"]), []).append(each)
    medians = {
        way: statistics.median(each["lines_per_second"] for each in several)
        for way, several in ways.items()
    }
    way = max(medians, key=lambda each: medians[each])
    several = ways[way]
    best = {
        "lines_per_second": medians[way],
        "threads": way[0],
        "workers": way[1],
        "outputs": several[0]["outputs"],
    }
    for key in ("median_latency", "latency_95", "memory_at_load", "peak_memory", "load_seconds"):
        if key in several[0]:
            best[key] = statistics.median(each[key] for each in several)
    if references and len(references) == len(several[0]["outputs"]):
        best["bleu"] = sacrebleu.corpus_bleu(several[0]["outputs"], [references]).score
    return best


def _section(result: dict[str, Any]) -> str:
    head = ["engine", "lines/s", "of its rival", "median, 95 %", "BLEU", "same lines", "memory"]
    parts = [INTRODUCTION]
    for row in result["rows"]:
        engines = row["engines"]
        lines = []
        for name, each in engines.items():
            rival = engines.get(RIVALS.get(name, ""))
            ratio = each["lines_per_second"] / rival["lines_per_second"] if rival else None
            lines.append(
                [
                    name,
                    f"{each['lines_per_second']:.1f}",
                    f"**{ratio:.2f}×**" if ratio else "",
                    _latency(each),
                    f"{each['bleu']:.2f}" if "bleu" in each else "",
                    f"{each.get('same_as_regard', 0):.1%}",
                    f"{each['memory_at_load'] / 1e6:,.0f} / {each['peak_memory'] / 1e6:,.0f} MB",
                ]
            )
        parts.append(f"### {row['name'].capitalize()}\n\n{table(head, lines)}")
    return "\n\n".join(parts)


def _latency(each: dict[str, Any]) -> str:
    if "median_latency" not in each:
        return ""
    return f"{each['median_latency'] * 1e3:.1f}, {each['latency_95'] * 1e3:.1f} ms"


if __name__ == "__main__":
    main()
