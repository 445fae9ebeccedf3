"""How fast does a training step go, beside the known toolkits on the same work?

    python benchmarks/training.py                      all engines, three rounds
    python benchmarks/training.py --rounds 1 --engines Regard Marian

Each engine runs in a process of its own, one after the other, round after round. Between its steps
the rate of a large float32 matrix product is measured, which its own rate is compared with. Run it
with nothing else running.
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
from report import keep, machine, table

HERE = Path(__file__).parent
PEERS = HERE / "peers"
# Model FLOPs of a forward and a backward pass, from the sizes: per source and per target token.
SOURCE_WORK, TARGET_WORK = 14.3e6, 31.5e6
ENGINES: dict[str, list[str]] = {
    "Regard": [str(HERE / "regard_training.py")],
    "torch.nn.Transformer": [str(PEERS / "torch_nn.py")],
    "torch.nn.Transformer, compiled": [str(PEERS / "torch_nn.py"), "--compile"],
    "Hugging Face Marian": [str(PEERS / "marian.py")],
    "Eole": [str(PEERS / "eole.py")],
    "Joey NMT": [str(PEERS / "joey.py")],
}
ENVIRONMENTS = {"Eole": "eole", "Joey NMT": "joey"}  # of their own, below peers/environments/


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--engines", nargs="*", default=_installed(), choices=list(ENGINES))
    parser.add_argument("--write", action="store_true", help="into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = export(Path(folder) / "data")
        rounds = [_round(data, options, number) for number in range(options.rounds)]
    result = {"machine": machine(), "rounds": rounds, "engines": _summary(rounds)}
    section = _section(result)
    print(section)
    if options.write:
        keep("training", result, section)


def _installed() -> list[str]:
    def is_there(name: str) -> bool:
        return (PEERS / "environments" / ENVIRONMENTS.get(name, "")).is_dir()

    return [name for name in ENGINES if name not in ENVIRONMENTS or is_there(name)]


def _round(data: Path, options: argparse.Namespace, number: int) -> dict[str, dict[str, Any]]:
    found = {}
    for name in options.engines:
        out = data.parent / f"{number}.json"
        command = [sys.executable, *ENGINES[name], str(data), "--mode", "throughput"]
        command += ["--steps", str(options.steps), "--threads", "2", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
        result = json.loads(out.read_text(encoding="utf-8"))
        found[name] = {**_brief(result), "utilisation": _utilisation(result)}
        print(f"round {number + 1}: {name}: {found[name]}", flush=True)
    return found


def _brief(result: dict[str, Any]) -> dict[str, Any]:
    keys = ("target_tokens_per_second", "source_tokens_per_second", "median_step_seconds")
    more = ("first_step_seconds", "peak_memory_bytes", "padding_share", "parameters")
    return {key: result.get(key) for key in (*keys, *more)}


def _utilisation(result: dict[str, Any]) -> float | None:
    """The work of its steps against matrix products in between; an engine outside has none."""
    if "matrix_rates" not in result:
        return None
    # Both over the same stretch of time: mean against mean.
    pace = statistics.harmonic_mean(result["matrix_rates"])
    return _work(result) / float(pace)


def _work(result: dict[str, Any]) -> float:
    """Operations a second."""
    source = SOURCE_WORK * float(result["source_tokens_per_second"])
    return source + TARGET_WORK * float(result["target_tokens_per_second"])


def _summary(rounds: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, float | None]]:
    """The median over the rounds; ratios are taken within a round."""
    summary = {}
    for name in rounds[0]:
        summary[name] = {
            "tokens_per_second": _median([r[name]["target_tokens_per_second"] for r in rounds]),
            "regard_over_it": _ratio(rounds, name, "target_tokens_per_second"),
            # What was computed against what the machine could compute at that time: a neighbour
            # who comes and goes between two engines is left out of it.
            "regard_over_it_at_equal_pace": _ratio(rounds, name, "utilisation"),
            **{
                key: _median([each[name][key] for each in rounds])
                for key in ("utilisation", "first_step_seconds", "peak_memory_bytes")
            },
        }
    return summary


def _ratio(rounds: list[dict[str, dict[str, Any]]], name: str, key: str) -> float | None:
    pairs = [(each.get("Regard", each[name])[key], each[name][key]) for each in rounds]
    return _median([mine / its if its else None for mine, its in pairs])


def _median(values: list[float | None]) -> float | None:
    return None if None in values else statistics.median(filter(None, values))


def _shown(value: float | None, form: str, unit: str = "") -> str:
    return "not measured" if value is None else format(value, form) + unit


def _spread(rounds: list[dict[str, dict[str, Any]]]) -> float:
    """How much faster matrix products were beside one engine than beside another."""
    paces = [
        _work(each) / each["utilisation"]
        for engines in rounds
        for each in engines.values()
        if each["utilisation"]
    ]
    return max(paces) / min(paces) - 1


def _section(result: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f"{each['tokens_per_second']:,.0f}",
            _shown(each["utilisation"], ".0%"),
            _shown(each["regard_over_it"], ".2f", "×"),
            _shown(each["regard_over_it_at_equal_pace"], ".2f", "×"),
            _shown(each["first_step_seconds"], ".1f", " s"),
            f"{each['peak_memory_bytes'] / 1e9:.2f} GB",
        ]
        for name, each in result["engines"].items()
    ]
    ratios = ["Regard is, by the clock", "at equal pace"]
    head = ["engine", "target tokens/s", "of the matrix peak", *ratios, "first step", "memory"]
    about = result["machine"]
    return f"""## Speed of a training step

Encoder-decoder, D 256, feed-forward 1024, 4 heads, 3 + 3 layers, shared vocabulary of 8,000, about
4,096 tokens a batch, label smoothing 0.1, dropout 0.1, float32, 2 threads, Adam; Multi30k French →
English (Elliott et al. 2016, 2017). Each engine in a process of its own, {len(result["rounds"])}
round(s), medians; real tokens only. Utilisation counts 14.3 MFLOP a source token and 31.5 a target
token against the rate of 1024 × 1024 float32 matrix products between the steps of the same process;
at equal pace means the ratio of these, since the machine's own pace differed by up to
{_spread(result["rounds"]):.0%} from one engine to the next. Eole and Joey NMT cannot be asked.
A compiled model is compiled anew for lengths it has not met; that time is counted. {about["cpu"]},
torch {about["torch"]}.

{table(head, rows)}
"""


if __name__ == "__main__":
    main()
