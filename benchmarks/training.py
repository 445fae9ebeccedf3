"""Compare the speed of a training step with other toolkits on the same model and data.

    python benchmarks/training.py                      all engines, three rounds
    python benchmarks/training.py --rounds 1 --engines Regard Marian

Each engine runs in its own process, one after the other, in several rounds. Between the steps the
rate of a large float32 matrix product is measured, the peak that utilization refers to. Run it
on an idle machine.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from corpus import export
from report import machine, table, write_results

HERE = Path(__file__).parent
PEERS = HERE / "peers"
# Model FLOPs of a forward and a backward pass, per source token and per target token.
SOURCE_WORK, TARGET_WORK = 14.3e6, 31.5e6
ENGINES: dict[str, list[str]] = {
    "Regard": [str(HERE / "regard_training.py")],
    "torch.nn.Transformer": [str(PEERS / "torch_nn.py")],
    "torch.nn.Transformer, compiled": [str(PEERS / "torch_nn.py"), "--compile"],
    "Hugging Face Marian": [str(PEERS / "marian.py")],
    "Eole": [str(PEERS / "eole.py")],
    "Joey NMT": [str(PEERS / "joey.py")],
}
ENVIRONMENTS = {"Eole": "eole", "Joey NMT": "joey"}  # virtual environments in peers/environments/


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--engines", nargs="*", default=_installed(), choices=list(ENGINES))
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = export(Path(folder) / "data")
        rounds = [_round(data, options, number) for number in range(options.rounds)]
    result = {"machine": machine(), "rounds": rounds, "engines": _summary(rounds)}
    section = describe(result)
    print(section)
    if options.write:
        write_results("training", result, section)


def _installed() -> list[str]:
    def is_installed(name: str) -> bool:
        return (PEERS / "environments" / ENVIRONMENTS.get(name, "")).is_dir()

    return [name for name in ENGINES if name not in ENVIRONMENTS or is_installed(name)]


def _round(data: Path, options: argparse.Namespace, number: int) -> dict[str, dict[str, Any]]:
    results = {}
    for name in options.engines:
        out = data.parent / f"{number}.json"
        command = [sys.executable, *ENGINES[name], str(data), "--mode", "throughput"]
        command += ["--steps", str(options.steps), "--threads", "2", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
        result = json.loads(out.read_text(encoding="utf-8"))
        results[name] = {**_brief(result), "utilization": _utilization(result)}
        print(f"round {number + 1}: {name}: {results[name]}", flush=True)
    return results


def _brief(result: dict[str, Any]) -> dict[str, Any]:
    keys = ("target_tokens_per_second", "source_tokens_per_second", "median_step_seconds")
    more = ("first_step_seconds", "peak_memory_bytes", "padding_share", "parameters")
    return {key: result.get(key) for key in (*keys, *more)}


def _utilization(result: dict[str, Any]) -> float | None:
    """Return the rate of the steps over that of matrix products; None for external programs."""
    if "matrix_rates" not in result:
        return None
    # Both over the same time: mean against mean.
    peak = statistics.harmonic_mean(result["matrix_rates"])
    return _work(result) / float(peak)


def _work(result: dict[str, Any]) -> float:
    """Return operations per second."""
    source = SOURCE_WORK * float(result["source_tokens_per_second"])
    return source + TARGET_WORK * float(result["target_tokens_per_second"])


def _summary(rounds: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, float | None]]:
    """Return medians over the rounds; ratios are computed within a round."""
    summary = {}
    for name in rounds[0]:
        summary[name] = {
            "tokens_per_second": _median([r[name]["target_tokens_per_second"] for r in rounds]),
            "speedup": _ratio(rounds, name, "target_tokens_per_second"),
            # Relative to what the machine could compute at that time: independent of other
            # programs that run beside one engine and not beside another.
            "speedup_at_equal_utilization": _ratio(rounds, name, "utilization"),
            **{
                key: _median([results[name][key] for results in rounds])
                for key in ("utilization", "first_step_seconds", "peak_memory_bytes")
            },
        }
    return summary


def _ratio(rounds: list[dict[str, dict[str, Any]]], name: str, key: str) -> float | None:
    pairs = [(results.get("Regard", results[name])[key], results[name][key]) for results in rounds]
    return _median([regard / other if other else None for regard, other in pairs])


def _median(values: list[float | None]) -> float | None:
    return None if None in values else statistics.median(filter(None, values))


def _shown(value: float | None, form: str, unit: str = "") -> str:
    return "not measured" if value is None else format(value, form) + unit


def _spread(rounds: list[dict[str, dict[str, Any]]]) -> float:
    """Return how much faster matrix products were beside one engine than beside another."""
    peaks = [
        _work(result) / result["utilization"]
        for engines in rounds
        for result in engines.values()
        if result["utilization"]
    ]
    return max(peaks) / min(peaks) - 1


def describe(result: dict[str, Any]) -> str:
    """Return the section of the page."""
    rows = [
        [
            name,
            f"{engine['tokens_per_second']:,.0f}",
            _shown(engine["utilization"], ".0%"),
            _shown(engine["speedup"], ".2f", "×"),
            _shown(engine["speedup_at_equal_utilization"], ".2f", "×"),
            _shown(engine["first_step_seconds"], ".1f", " s"),
            f"{engine['peak_memory_bytes'] / 1e9:.2f} GB",
        ]
        for name, engine in result["engines"].items()
    ]
    ratios = ["speedup of Regard", "speedup by utilization"]
    head = ["engine", "target tokens/s", "utilization", *ratios, "first step", "memory"]
    about = result["machine"]
    return f"""## Speed of a training step

Encoder-decoder, D 256, feed-forward 1024, 4 heads, 3 + 3 layers, shared vocabulary of 8,000, about
4,096 tokens a batch, label smoothing 0.1, dropout 0.1, float32, 2 threads, Adam; Multi30k French →
English (Elliott et al. 2016, 2017). Each engine in its own process, {len(result["rounds"])}
round(s), medians; padding is not counted. Utilization is 14.3 MFLOP a source token and 31.5 a
target token, relative to the rate of 1024 × 1024 float32 matrix products between the steps of the
same process; the speedup by utilization is the ratio of these, because the rate of the machine
differed by up to {_spread(result["rounds"]):.0%} between engines. It cannot be measured inside Eole
and Joey NMT. A compiled model is compiled again for new lengths; that time is counted.
{about["cpu"]}, torch {about["torch"]}.

{table(head, rows)}
"""


if __name__ == "__main__":
    main()
