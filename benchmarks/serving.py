"""Compare `regard serve` with servers around CTranslate2, Hugging Face and llama.cpp, under load.

    python benchmarks/serving.py --write
    python benchmarks/serving.py --overload --write   ten times the requests that it can answer
    python benchmarks/serving.py --smoke              a small model, a second each: do all run?

Every server has the same weights and runs in a process of its own, one after the other, in several
rounds; Hugging Face in the first round only. The requests come from another process, over loopback
(servers/load.py). Run it on an idle machine.
"""

import argparse
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp
import overload
from engine_process import run_engine
from report import describe_machine, isa_name, summary, table, with_stored_rows, write_results
from server_process import ServerProcess, running_server
from serving_setup import (
    FEWEST,
    MOST,
    OURS,
    SERVERS,
    THREADS,
    TOKENS,
    WORKLOADS,
    Models,
    Workload,
)

CLIENTS = (1, 8, 64, 256)
CAPACITY = 64  # clients for which the capacity of a server is measured
SHARES = (0.5, 0.9)  # of the capacity of the best peer: requests a second of open loops
OVERHEAD_TEXTS = 50
SLOW = "Hugging Face"  # measured in one round
INTRODUCTION = f"""## Serving on 2 cores

`regard serve` beside servers with the same weights, on the same two cores as the client: FastAPI
and uvicorn around CTranslate2 and around Hugging Face's `generate`, which decode the requests that
wait together (at most 64), and llama.cpp's own server with 64 slots. CTranslate2 has two workers of
one thread or one of two, whichever is better. *Clients* send their next request when they have the
answer to the last (closed loop); *arrivals* are random (Poisson), at a share of the requests a
second that the best peer with as many bits answers for {CAPACITY} clients, and latency counts from
the time at which a request was due. Translation: the French → English model of the package with
plain greedy decoding, the lines of Multi30k's test_2016_flickr (Elliott et al. 2016, 2017) by
LibreTranslate's protocol. Completion: a language model with random weights
({llama_cpp.SHAPES[0].name}), {TOKENS} tokens after a random prompt of {llama_cpp.PROMPT}, by
OpenAI's; *of any length*: {FEWEST} to {MOST} tokens, as many on average. llama.cpp gets ids instead
of text; it stores keys and values in half precision, but with F32 weights in float32. First token:
the median time to the first text of a streamed answer. CPU: of all processes of the server, for an
answer. Same: part of the answers that equal those of Regard in float32. Speedup: Regard's requests
a second over those of the best peer with as many bits; in brackets, its 99th percentile over that
of this peer."""


@dataclass(frozen=True)
class Load:
    """Clients of a closed loop, or random arrivals at a share of the best peer's capacity."""

    clients: int = 0
    share: float = 0.0

    @property
    def name(self) -> str:
        if self.clients:
            return f"{self.clients} client{'s' * (self.clients > 1)}"
        return f"arrivals at {self.share:.0%}"


Result = dict[str, Any]
Results = dict[Load, dict[str, list[Result]]]  # by load and server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--servers", nargs="*", default=list(SERVERS), choices=list(SERVERS))
    parser.add_argument("--clients", nargs="*", type=int, default=CLIENTS)
    parser.add_argument("--only", help="measure only the workload of this name")
    parser.add_argument("--overload", nargs="?", type=float, const=120, help="seconds of overload")
    parser.add_argument("--smoke", action="store_true", help="a small model, a second each")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.seconds, options.clients = 1, 1, (1, CAPACITY)
    shape = llama_cpp.SMOKE if options.smoke else llama_cpp.SHAPES[0]
    chosen = [workload for workload in WORKLOADS if options.only in (workload.name, None)]
    with tempfile.TemporaryDirectory() as folder:
        bench = Benchmark(Models(Path(folder), shape), Path(folder), options)
        if options.overload:
            measured = [bench.overload(workload) for workload in chosen if workload.is_plain]
        else:
            measured = [row for workload in chosen for row in bench.rows(workload)]
    if options.smoke:
        return
    result = with_stored_rows("serving", measured)
    section = describe(result)
    print(section)
    if options.write:
        write_results("serving", result, section)


class Benchmark:
    """Measurements of servers under load.

    Args:
        models: What they serve.
        folder: Where processes exchange files.
        options: Of the command line.
    """

    def __init__(self, models: Models, folder: Path, options: argparse.Namespace) -> None:
        self._models, self._folder, self._options = models, folder, options

    def rows(self, workload: Workload) -> Iterator[dict[str, Any]]:
        """Measure all servers under all loads; yield a row for each load."""
        names = workload.servers(self._options.servers)
        closed = {Load(clients=clients): clients for clients in self._options.clients}
        results: Results = defaultdict(lambda: defaultdict(list))
        overheads = defaultdict(list)
        for number in range(self._options.rounds):
            in_round = [name for name in names if name != SLOW or not number]
            for name in in_round:
                self._measure(workload, name, closed, results)
            capacities = _capacities(results)
            for name in in_round:
                capacity = capacities.get(SERVERS[name].bits, 0.0)
                rates = {Load(share=share): share * capacity for share in SHARES if capacity}
                self._measure(workload, name, rates, results)
            for name in OURS.values():
                if name in names and workload.is_plain:
                    overheads[name].append(self._overhead(workload, name))
        yield from _rows(workload, results)
        if overheads:
            medians = {name: _median(runs) for name, runs in overheads.items()}
            print(f"{workload.name}, overhead: {medians}", flush=True)
            yield {"name": f"{workload.name}, overhead", "engines": {}, "overhead": medians}

    def overload(self, workload: Workload) -> dict[str, Any]:
        """Return what Regard's server does with more requests than it can answer."""
        bodies = self._bodies(workload, "Regard")[: overload.TEXTS]
        with self._running(workload, "Regard") as server:

            def send(**load: float) -> Result:
                return self._under(server, workload, bodies, **load)

            result = overload.run(server, send, self._options.overload)
        print(f"{workload.name}, overload: {result}", flush=True)
        return {"name": f"{workload.name}, overload", "engines": {}, "under_overload": result}

    def _measure(
        self, workload: Workload, name: str, loads: Mapping[Load, float], results: Results
    ) -> None:
        """Run a server with each of its settings, and add its results under some loads.

        Args:
            workload: The requests.
            name: The server.
            loads: The loads, with their number of clients or of requests a second.
            results: Where the results are added.
        """
        if not loads:
            return
        bodies = self._bodies(workload, name)
        for workers, threads in SERVERS[name].cores:
            with self._running(workload, name, workers, threads) as server:
                for load, number in loads.items():
                    kind = "clients" if load.clients else "rate"
                    result = self._under(server, workload, bodies, **{kind: number})
                    results[load][name].append({**result, "workers": workers})
                    shown = {key: value for key, value in result.items() if key != "texts"}
                    print(f"{workload.name}, {load.name}, {name}: {shown}", flush=True)

    def _overhead(self, workload: Workload, name: str) -> dict[str, float]:
        """Return the mean latency of some texts one by one, in process and by the server."""
        bodies = self._bodies(workload, name)[:OVERHEAD_TEXTS]
        work = {
            "model": str(self._models.folder(workload, name)),
            "bits": SERVERS[name].bits,
            "lines": self._models.texts(workload)[:OVERHEAD_TEXTS],
            "tokens": TOKENS * (workload.task == "completion"),
            "threads": THREADS,
            "seconds": self._options.seconds,
        }
        direct = statistics.mean(run_engine("latency.py", work, self._folder)["latencies"])
        with self._running(workload, name) as server:
            result = self._under(server, workload, bodies, clients=1, min_answers=len(bodies))
        served = statistics.mean(text["latency"] for text in result["texts"].values())
        return {"in_process": direct, "served": served, "overhead": served - direct}

    def _bodies(self, workload: Workload, name: str) -> list[str]:
        return workload.bodies(name, self._models.texts(workload))

    def _running(
        self, workload: Workload, name: str, workers: int = 1, threads: int = THREADS
    ) -> Any:
        command = self._models.command(workload, name, workers, threads)
        return running_server(command, {"REGARD_THREADS": str(THREADS)})

    def _under(
        self, server: ServerProcess, workload: Workload, bodies: list[str], **load: float
    ) -> Result:
        """Return the result of a server under a load, with its CPU time and its memory."""
        work = {
            "port": server.port,
            "path": workload.path,
            "bodies": bodies,
            "seconds": self._options.seconds,
            "warm_up": min(2.0, self._options.seconds / 2),
        }
        before = server.cpu_seconds
        result = run_engine("../servers/load.py", {**work, **load}, self._folder)
        server.require_running()
        cpu = (server.cpu_seconds - before) / max(result["answers"], 1)
        return {**result, "cpu": cpu, "memory": server.memory}


def _capacities(results: Results) -> dict[int, float]:
    """Return the requests a second of the best peer, by the bits of the weights."""
    capacities: dict[int, float] = {}
    for name, runs in results[Load(clients=CAPACITY)].items():
        if name not in OURS.values():
            rates = [run["requests_per_second"] for run in runs]
            bits = SERVERS[name].bits
            capacities[bits] = max(capacities.get(bits, 0.0), *rates)
    return capacities


def _rows(workload: Workload, results: Results) -> Iterator[dict[str, Any]]:
    """Yield a row for each load."""
    expected: dict[str, str] = {}
    for servers in results.values():
        for run in servers.get("Regard", ()):
            expected |= {index: next(iter(text["answers"])) for index, text in run["texts"].items()}
    for load, servers in results.items():
        engines = {name: _best(runs, load, expected) for name, runs in servers.items()}
        if engines:
            yield {"name": f"{workload.name}, {load.name}", "engines": engines}


def _best(runs: Sequence[Result], load: Load, expected: Mapping[str, str]) -> Result:
    """Return the medians of the better number of workers over the rounds."""
    by_workers = defaultdict(list)
    for run in runs:
        by_workers[run["workers"]].append(_result(run, expected))
    medians = [_median(own) for own in by_workers.values()]
    if load.clients:
        return max(medians, key=lambda own: own["requests_per_second"])
    return min(medians, key=lambda own: own["latency"].get("95", float("inf")))


def _result(run: Result, expected: Mapping[str, str]) -> Result:
    """Return the part of a result that is kept."""
    keys = ("requests_per_second", "latency", "first_token", "cpu", "memory", "client_cpu")
    counts = [
        (count, text == expected.get(index))
        for index, answers in run["texts"].items()
        for text, count in answers["answers"].items()
    ]
    return {
        **{key: run[key] for key in (*keys, "workers")},
        "same": sum(count for count, same in counts if same) / max(sum(c for c, _ in counts), 1),
        "failures": run["answers"] + run["unanswered"] - run["statuses"].get("200", 0),
    }


def _median(values: Sequence[Any]) -> Any:
    """Return the median of numbers, or of the numbers of each key."""
    if isinstance(values[0], dict):
        return {key: _median([value[key] for value in values if key in value]) for key in values[0]}
    return statistics.median(values)


def describe(results: Mapping[str, Any]) -> str:
    """Return the section of the page: a summary, then the tables of each instruction set."""
    parts = [
        INTRODUCTION,
        summary("speedup over the best peer", _with(results, "client"), OURS, _speedup),
        summary("99th percentile over the best peer's", _with(results, "arrivals"), OURS, _slowest),
    ]
    for isa, result in results.items():
        parts.append(f"### {isa_name(isa)}, serving\n\n{describe_machine(result['machine'])}")
        parts += [text for workload in WORKLOADS if (text := _loads(workload, result["rows"]))]
        parts += [_overheads(result["rows"]), _overloads(result["rows"])]
    return "\n\n".join(part for part in parts if part)


def _with(results: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the rows of closed loops, or those of arrivals."""
    return {
        isa: {"rows": [row for row in result["rows"] if row["engines"] and kind in row["name"]]}
        for isa, result in results.items()
    }


def _speedup(engines: Mapping[str, Any], name: str) -> str:
    """Return Regard's requests a second relative to the best peer, and its 99th percentile."""
    peers = _peers(engines, name)
    if not peers:
        return "not measured"
    peer, own = max(peers, key=lambda peer: peer["requests_per_second"]), engines[name]
    ratio = own["requests_per_second"] / peer["requests_per_second"]
    return f"**{ratio:.2f}×** ({own['latency']['99'] / peer['latency']['99']:.2f}×)"


def _slowest(engines: Mapping[str, Any], name: str) -> str:
    """Return Regard's 99th percentile relative to that of the best peer."""
    peers = _peers(engines, name)
    if not peers:
        return "not measured"
    best = min(peer["latency"]["99"] for peer in peers)
    return f"**{engines[name]['latency']['99'] / best:.2f}×**"


def _peers(engines: Mapping[str, Any], name: str) -> list[Result]:
    """Return the results of the peers of a server that answered; none if it did not."""
    if not engines.get(name, {}).get("latency"):
        return []
    return [
        engine
        for peer, engine in engines.items()
        if peer not in OURS.values()
        and SERVERS[peer].bits == SERVERS[name].bits
        and engine["latency"]
    ]


def _loads(workload: Workload, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of a workload, with a line for each load and server."""
    head = [workload.name, "server", "requests/s", "first token", "50 %", "95 %", "99 %"]
    head += ["CPU", "memory", "same", "failures"]
    own = [row for row in rows if row["engines"] and row["name"].startswith(f"{workload.name}, ")]
    lines = [
        ["" if number else row["name"].removeprefix(f"{workload.name}, "), *_cells(name, engine)]
        for row in own
        for number, (name, engine) in enumerate(row["engines"].items())
    ]
    if not lines:
        return ""
    used = max(engine["client_cpu"] for row in own for engine in row["engines"].values())
    note = f"The client used at most {used:.0%} of a core."
    return f"#### {workload.name.capitalize()}\n\n{table(head, lines)}\n\n{note}"


def _cells(name: str, engine: Mapping[str, Any]) -> list[str]:
    latency, first = engine["latency"], engine["first_token"].get("50")
    return [
        name,
        f"{engine['requests_per_second']:,.1f}",
        "" if first is None else _time(first),
        *(_time(latency[key]) if key in latency else "" for key in ("50", "95", "99")),
        f"{engine['cpu'] * 1e3:,.1f} ms",
        f"{engine['memory'] / 1e6:,.0f} MB",
        f"{engine['same']:.1%}",
        f"{engine['failures']:,.0f}",
    ]


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def _overheads(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the latencies in process and by the server."""
    head = ["one client, mean latency", "in process", "by the server", "difference"]
    lines = [
        [f"{row['name'].partition(',')[0]}, {name}", *map(_time, times.values())]
        for row in rows
        for name, times in row.get("overhead", {}).items()
    ]
    return f"#### Overhead of the server\n\n{table(head, lines)}" if lines else ""


def _overloads(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what happens under ten times the requests that the server can answer."""
    results = {
        row["name"].partition(",")[0]: row["under_overload"]
        for row in rows
        if "under_overload" in row
    }
    if not results:
        return ""
    seconds = max(result["seconds"] for result in results.values())
    title = f"#### {overload.FACTOR} times the capacity for {seconds:.0f} seconds"
    return f"{title}\n\n{overload.describe(results)}"


if __name__ == "__main__":
    main()
