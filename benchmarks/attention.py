"""Measure time and memory of the attention kinds over the length, and of other libraries.

    python benchmarks/attention.py --write
    python benchmarks/attention.py --check          compare the outputs with those of Regard
    python benchmarks/attention.py --engine NAME --length 4096

Attention without projections, forward and backward: 4 heads of 64, one text, float32. Each engine
runs in its own process, in interleaved rounds, length by length. Memory is the peak of the process
above what it had with queries, keys, values and their gradients allocated.
"""

import argparse
import ctypes
import itertools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.hardware import keep_freed_memory
from report import DOCS, machine, table, write_results

HEADS, SIZE = 4, 64
WINDOW, RANK = 256, 256
LENGTHS = tuple(2**power for power in range(9, 17))
FITTED_FROM, COMPARED = 4096, 16_384  # minimum length of exponents; length of the ratios
MAX_MEMORY = 8 * 2**30  # bytes
SINGLE_RUN = 10.0  # seconds; a slower point is measured once

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Engine:
    """An implementation of attention; `build(length)` returns it."""

    pattern: str
    build: Callable[[int], Attend | nn.Module]
    backward: bool = True  # supports the backward pass
    is_regard: bool = False


def _regard(pattern: str, causal: bool, **spec: Any) -> Engine:
    def build(length: int) -> nn.Module:
        from regard.attention.base import AttentionSpec
        from regard.attention.masks import AttentionMask
        from regard.positions.base import InAttention, Sizes

        sizes = Sizes(HEADS * SIZE, HEADS, SIZE, length)
        attention = AttentionSpec.model_validate(spec).build(sizes)
        device = torch.device("cpu")
        mask = (
            AttentionMask.causal(0, length, device)
            if causal
            else AttentionMask.bidirectional(length, device)
        )
        return _Bound(attention, mask, InAttention())

    return Engine(pattern, build, is_regard=True)


class _Bound(nn.Module):
    def __init__(self, attention: nn.Module, mask: Any, position: Any) -> None:
        super().__init__()
        self.attention, self.mask, self.position = attention, mask, position

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        output: Tensor = self.attention(q, k, v, self.mask, self.position)
        return output


def _sdpa(causal: bool) -> Callable[[int], Attend]:
    return lambda _: lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _local_attention(causal: bool) -> Callable[[int], Attend]:
    def build(_: int) -> Attend:
        from local_attention import LocalAttention

        look_forward = 0 if causal else 1
        attention: Attend = LocalAttention(
            WINDOW, causal=causal, exact_windowsize=True, look_backward=1, look_forward=look_forward
        )
        return attention

    return build


def _longformer(_: int) -> Attend:
    """Return the sliding-chunk products with the softmax between them, without projections, padding
    mask and global tokens."""
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    config = LongformerConfig(
        hidden_size=HEADS * SIZE, num_attention_heads=HEADS, attention_window=[2 * WINDOW]
    )
    layer = LongformerSelfAttention(config, layer_id=0)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q / math.sqrt(SIZE), k, v))
        weights = layer._sliding_chunks_query_key_matmul(q, k, WINDOW).softmax(-1)
        output: Tensor = layer._sliding_chunks_matmul_attn_probs_value(weights, v, WINDOW)
        return output.transpose(1, 2)

    return attend


def _hugging_face_bigbird(length: int) -> Attend:
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import (
        BigBirdBlockSparseAttention,
        BigBirdModel,
    )

    config = BigBirdConfig(
        hidden_size=HEADS * SIZE, num_attention_heads=HEADS, max_position_embeddings=length
    )
    blocks, block = config.num_random_blocks, config.block_size
    layer = BigBirdBlockSparseAttention(
        config, seed=0
    ).train()  # in eval mode there are no random blocks
    blocked, band, from_mask, to_mask = BigBirdModel.create_masks_for_block_sparse_attn(
        torch.ones(1, length), block
    )

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        masks = (band, from_mask, to_mask, blocked, blocked)
        sizes = (HEADS, blocks, SIZE, block, block, 1, length, length)
        output, _ = layer.bigbird_block_sparse_attention(q, k, v, *masks, *sizes, 0, None, None)
        return output.transpose(1, 2)

    return attend


def _flex(pattern: str) -> Callable[[int], Attend]:
    """Return compiled flex attention with a precomputed block mask."""

    def build(length: int) -> Attend:
        from torch.nn.attention.flex_attention import BlockMask, flex_attention

        allowed, block = _predicate(pattern, length), 64 if pattern == "BigBird" else 128
        own = torch.arange(-(-length // block))
        edges = [(own * block)[:, None], (own * block + block - 1)[:, None]]
        # A block is needed if any of its pairs is; with these patterns, then a corner is.
        corners = [allowed(0, 0, i, j.T) for i, j in itertools.product(edges, edges)]
        some = torch.stack([*corners, torch.eye(len(own), dtype=torch.bool)]).any(0)
        counts = some.sum(1, dtype=torch.int32)[None, None]
        which = some.int().argsort(dim=1, descending=True, stable=True).int()[None, None]
        mask = BlockMask.from_kv_blocks(counts, which, BLOCK_SIZE=block, mask_mod=allowed)
        compiled = torch.compile(flex_attention, dynamic=False)
        return lambda q, k, v: compiled(q, k, v, block_mask=mask)

    return build


def _predicate(pattern: str, length: int) -> Callable[[Any, Any, Tensor, Tensor], Tensor]:
    if pattern == "window, causal":
        return lambda _b, _h, i, j: (j <= i) & (i - j <= WINDOW)
    if pattern == "window, centered":
        return lambda _b, _h, i, j: (i - j <= WINDOW) & (j - i <= WINDOW)
    from regard.attention.bigbird import Spec

    block = Spec().block
    first = torch.arange(0, length, block)
    may_attend = Spec().build(_sizes(length))._pattern(length).allows(first[:, None], first)
    return lambda _b, _h, i, j: may_attend[i // block, j // block]


def _sizes(length: int) -> Any:
    from regard.positions.base import Sizes

    return Sizes(HEADS * SIZE, HEADS, SIZE, length)


ENGINES: Mapping[str, Engine] = {
    "torch SDPA": Engine("full", _sdpa(False)),
    "Regard fused": _regard("full", False, kind="fused"),
    "torch SDPA, causal": Engine("full, causal", _sdpa(True)),
    "Regard fused, causal": _regard("full, causal", True, kind="fused"),
    "Regard window, causal": _regard("window, causal", True, kind="window", size=WINDOW),
    "local-attention, causal": Engine("window, causal", _local_attention(True)),
    "torch flex, causal window": Engine("window, causal", _flex("window, causal"), False),
    "Regard window": _regard("window, centered", False, kind="window", size=WINDOW),
    "local-attention": Engine("window, centered", _local_attention(False)),
    "Longformer": Engine("window, centered", _longformer),
    "torch flex, window": Engine("window, centered", _flex("window, centered"), False),
    "Regard window, dilated": _regard(
        "window, causal, dilated", True, kind="window", size=2 * WINDOW, dilation=2
    ),
    "Regard BigBird": _regard("BigBird", False, kind="bigbird"),
    "Hugging Face BigBird": Engine("BigBird", _hugging_face_bigbird),
    "torch flex, BigBird": Engine("BigBird", _flex("BigBird"), False),
    "Regard Linformer": _regard("Linformer", False, kind="linformer", rank=RANK),
    "Regard block-local": _regard("block-local, causal", True, kind="block-local"),
    "Regard compressed": _regard("compressed, causal", True, kind="compressed"),
    "Regard linear": _regard("linear, causal", True, kind="linear"),
}
FORWARD_ONLY = {engine.pattern for engine in ENGINES.values() if not engine.backward}
QUADRATIC = ("full", "full, causal", "compressed, causal")
DIFFERENT = {  # as many pairs, but not the same
    "Hugging Face BigBird": "the global blocks are the first and the last, and each head has other "
    "random blocks at each call"
}


# Functions of the process of an engine


def measure(name: str, length: int) -> dict[str, Any]:
    """Return seconds and bytes, forward only and forward and backward, or the reason for none."""
    engine = ENGINES[name]
    try:
        with torch.set_grad_enabled(engine.backward):
            attend, leaves = engine.build(length), _leaves(length, engine.backward)
            if isinstance(attend, nn.Module):
                parameters = list(attend.parameters())
                for parameter in parameters:
                    parameter.grad = torch.zeros_like(parameter)
            points = {}
            if engine.pattern in FORWARD_ONLY:
                with torch.no_grad():
                    attend(*leaves)  # whatever is compiled or planned for a length has been
                    points = _measured(attend, leaves)
            if engine.backward:
                points |= _measured(attend, leaves, torch.randn(1, HEADS, length, SIZE))
            return points
    except (RuntimeError, MemoryError) as error:
        if "alloc" in str(error) or isinstance(error, MemoryError):
            return {"reason": f"over {MAX_MEMORY // 2**30} GB"}
        raise
    except (ValueError, IndexError) as error:  # a peer that does not support this length
        return {"reason": f"refused ({error})", "may_continue": True}


def _measured(
    attend: Attend | nn.Module,
    leaves: Sequence[Tensor],
    gradient: Tensor | None = None,
) -> dict[str, Any]:
    passes = "forward" if gradient is None else "both"
    _trim()
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    allocated, start = _memory("VmRSS"), time.perf_counter()
    output = attend(*leaves)
    if gradient is not None:
        output.backward(gradient)
    seconds = time.perf_counter() - start
    return {passes: seconds, f"{passes} memory": _memory("VmHWM") - allocated}


def _trim() -> None:
    """Return freed memory to the system."""
    ctypes.CDLL(None).malloc_trim(0)


def _leaves(length: int, backward: bool) -> list[Tensor]:
    """Return queries, keys and values with allocated gradients."""
    generator = torch.Generator().manual_seed(length)
    leaves = [torch.randn(1, HEADS, length, SIZE, generator=generator) for _ in range(3)]
    if backward:
        for leaf in leaves:
            leaf.requires_grad_().grad = torch.zeros_like(leaf)
    return leaves


def _memory(name: str) -> int:
    """Return a figure of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def serve(name: str, threads: int) -> None:
    """Measure the lengths on standard input; print a line of JSON for each."""
    import resource

    torch.set_num_threads(threads)
    keep_freed_memory()  # as in training: otherwise only large tensors cost page faults
    measure(name, 2048)  # warm-up
    limit = _memory("VmData") + MAX_MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    print("ready", flush=True)
    for line in sys.stdin:
        point = measure(name, int(line))
        _trim()  # for the other engines
        print(json.dumps(point), flush=True)


# Functions of the main process


class EngineProcess:
    """An engine in its own process."""

    def __init__(self, name: str, threads: int) -> None:
        command = [sys.executable, __file__, "--engine", name, "--threads", str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ready(self) -> None:
        self._read_line()

    def __call__(self, length: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{length}\n")
        self._process.stdin.flush()
        point: dict[str, Any] = json.loads(self._read_line())
        return point

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process ended: {self._process.args}")
        return line


Points = dict[int, dict[str, Any]]  # by length


def collect(
    names: Sequence[str], lengths: Sequence[int], rounds: int, limit: float, threads: int
) -> dict[str, Points]:
    """Measure all engines length by length in interleaved rounds; slow ones only once."""
    show("starting")
    processes = {name: EngineProcess(name, threads) for name in names}
    for name, process in processes.items():
        show(f"waiting for {name}")
        process.ready()
    results: dict[str, Points] = {name: {} for name in names}
    for length in lengths:
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for turn, name in itertools.product(range(rounds), names):
            show(f"{length:,}: round {turn + 1} of {rounds}, {name}")
            reason = _skip_reason(results[name], limit) or _reason(runs[name])
            if reason:
                runs[name] = [{"reason": reason}]
            elif not runs[name] or _seconds(runs[name][-1]) < SINGLE_RUN:
                runs[name].append(processes[name](length))
        for name, points in runs.items():
            results[name][length] = _median(points)
    show("")
    for process in processes.values():
        process.end()
    return results


def _skip_reason(points: Points, limit: float) -> str | None:
    last = list(points.values())[-1:]
    if last and "reason" not in last[0] and _seconds(last[0]) > limit:
        return f"the last took over {limit:g} s"
    return None if last and last[0].get("may_continue") else _reason(last)


def _reason(runs: Sequence[Mapping[str, Any]]) -> str | None:
    return next((str(run["reason"]) for run in runs if "reason" in run), None)


def _seconds(point: Mapping[str, Any]) -> float:
    return float(point.get("both", point.get("forward", 0.0)))


def _median(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if "reason" in runs[0]:
        return dict(runs[0])
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def show(message: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{message}", end="", file=sys.stderr, flush=True)


# The section of the page


def exponent(points: Points, key: str) -> float | None:
    """Return the slope of the logarithms from FITTED_FROM on."""
    pairs = [
        (math.log(length), math.log(point[key]))
        for length, point in points.items()
        if length >= FITTED_FROM and point.get(key, 0) > 0
    ]
    if len(pairs) < 2:
        return None
    return statistics.linear_regression(*zip(*pairs, strict=True)).slope


def crossover(points: Points, full: Points, key: str) -> float | None:
    """Return the length from which an engine beats full attention, interpolated."""
    both = [
        (math.log(length), math.log(point[key] / full[length][key]))
        for length, point in points.items()
        if key in point and key in full[length]
    ]
    slower = [index for index, (_, ratio) in enumerate(both) if ratio >= 0]
    if not slower:
        return both[0][0] and math.exp(both[0][0])
    if slower[-1] + 1 == len(both):
        return None
    (x0, y0), (x1, y1) = both[slower[-1]], both[slower[-1] + 1]
    return math.exp(x0 + (x1 - x0) * y0 / (y0 - y1))


def rows_of(
    results: Mapping[str, Points], key: str, form: Callable[[float], str]
) -> list[list[str]]:
    rows = []
    for name, points in results.items():
        slope = exponent(points, key)
        cells = [form(point[key]) if key in point else "—" for point in points.values()]
        rows.append([name, *cells, "—" if slope is None else f"{slope:.2f}"])
    return rows


def not_measured(results: Mapping[str, Points]) -> Iterator[str]:
    for name, points in results.items():
        for length, point in points.items():
            if "reason" in point:
                yield f"{name} from {length:,}: {point['reason']}"
                break


def compared(results: Mapping[str, Points]) -> list[list[str]]:
    """Return the ratios of full attention and of the peers to Regard at COMPARED."""
    rows = []
    for name, points in results.items():
        if not ENGINES[name].is_regard or ENGINES[name].pattern.startswith("full"):
            continue
        pattern = ENGINES[name].pattern
        full = "torch SDPA, causal" if "causal" in pattern else "torch SDPA"
        same = [x for x in results if ENGINES[x].pattern == pattern and not ENGINES[x].is_regard]
        for other in [full, *same]:
            key = "both" if ENGINES[other].backward else "forward"
            one, two = points.get(COMPARED, {}), results.get(other, {}).get(COMPARED, {})
            if key not in one or key not in two:
                continue
            memory = f"{key} memory"
            rows.append(
                [
                    name,
                    other,
                    "forward and backward" if key == "both" else "forward",
                    f"{two[key] / one[key]:.1f}×",
                    f"{two[memory] / one[memory]:.2f}×",
                ]
            )
    return rows


def _subquadratic(results: Mapping[str, Points]) -> list[str]:
    return [
        name
        for name in results
        if ENGINES[name].is_regard and ENGINES[name].pattern not in QUADRATIC
    ]


def describe(result: Mapping[str, Any]) -> str:
    """Return the section of the page."""
    results: dict[str, Points] = {
        name: {int(length): point for length, point in points.items()}
        for name, points in result["engines"].items()
    }
    lengths = list(next(iter(results.values())))
    head = ["", *(f"{length:,}" for length in lengths), "exponent"]
    backward = {name: points for name, points in results.items() if ENGINES[name].backward}
    forward = {
        name: points for name, points in results.items() if ENGINES[name].pattern in FORWARD_ONLY
    }
    crossovers = []
    for name, points in results.items():
        full = "torch SDPA, causal" if "causal" in ENGINES[name].pattern else "torch SDPA"
        if name == full or not ENGINES[name].backward or ENGINES[name].pattern.startswith("full"):
            continue
        cells = []
        for key in ("both", "both memory"):
            length = crossover(points, results[full], key) if full in results else None
            cells.append("not reached" if length is None else f"{length:,.0f}")
        crossovers.append([name, *cells])
    about = result["machine"]
    parts = [
        f"""## Attention over long texts

Attention without projections: {HEADS} heads of {SIZE}, one text, float32, {about["threads"]}
thread(s), {about["cpu"]}, torch {about["torch"]}. Each engine in its own process,
{result["rounds"]} interleaved rounds, medians; points of more than {SINGLE_RUN:g} s were measured
once. Windows have {WINDOW} tokens to the left (and, if not causal, as many to the right); dilated,
every second of {2 * WINDOW}; Linformer has rank {RANK}; BigBird has blocks of 64, a window of three
blocks, two global and three random ones. Memory is the peak above queries, keys, values and their
gradients; the processes reuse freed memory, as in training. The exponent is the slope of the
logarithms from {FITTED_FROM:,} tokens on.

Forward and backward, in seconds:

{table(head, rows_of(backward, "both", lambda x: f"{x:.3g}"))}

![Time over length](../images/attention.svg)

Peak memory, in MB:

{table(head, rows_of(backward, "both memory", lambda x: f"{x / 1e6:,.0f}"))}"""
    ]
    if forward:
        parts.append(f"""torch's flex_attention has no backward pass on a CPU. Forward only, in
seconds, without saving anything for a backward pass; compilation and the creation of its mask
are excluded:

{table(head, rows_of(forward, "forward", lambda x: f"{x:.3g}"))}""")
    missing = list(not_measured(results))
    if missing:
        parts.append(f"Not measured: {'; '.join(missing)}.")
    parts.append(f"""Time and memory of other implementations at {COMPARED:,} tokens, relative to
Regard:

{table(["", "other", "passes", "time", "memory"], compared(results))}""")
    steepest = [
        max((exponent(results[name], key) or 0.0, name) for name in _subquadratic(results))
        for key in ("both", "both memory")
        if _subquadratic(results)
    ]
    if steepest:
        (time_, slow), (memory, large) = steepest
        parts.append(f"""The largest exponent of Regard's subquadratic kinds is {time_:.2f} in
time ({slow}) and {memory:.2f} in memory ({large}).""")
    parts.append(f"""Length in tokens from which an implementation is better than full attention
with torch's fused kernel (causal compared with causal):

{table(["", "time", "memory"], crossovers)}""")
    notes = [f"{name}: {text}" for name, text in DIFFERENT.items() if name in results]
    if notes:
        parts.append(
            f"Not identical: {'; '.join(notes)}. All others of a pattern compute the same."
        )
    return "\n\n".join(parts)


def draw(results: Mapping[str, Points], path: Path) -> None:
    """Draw time over length."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "regard"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, points in results.items():
        line = [(length, point["both"]) for length, point in points.items() if "both" in point]
        if line and name not in ("Regard fused", "Regard fused, causal"):  # the same as torch's
            style = "-" if ENGINES[name].is_regard else "--"
            axes.plot(*zip(*line, strict=True), style, marker="o", markersize=3, label=name)
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="seconds, forward and backward")
    axes.set_xticks(list(next(iter(results.values()))))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.minorticks_off()
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def check(length: int = 1024) -> bool:
    """Compare outputs and gradients of the peers with those of Regard; return success."""
    success = True
    for name, engine in ENGINES.items():
        regard = next(
            (x for x in ENGINES.values() if x.is_regard and x.pattern == engine.pattern), None
        )
        if engine.is_regard or regard is None:
            continue
        outputs = []
        for one in (engine, regard):
            with torch.set_grad_enabled(engine.backward):
                leaves = _leaves(length, engine.backward)
                output = one.build(length)(*leaves)
                if engine.backward:
                    output.backward(leaves[0].detach())
                gradients = [x.grad for x in leaves if x.grad is not None]
                outputs.append([output.detach(), *gradients])
        difference = max((a - b).abs().max().item() for a, b in zip(*outputs, strict=True))
        same = difference < 1e-4
        success &= same or name in DIFFERENT
        outcome = "the same" if same else DIFFERENT.get(name, "NOT the same")
        print(f"{name}: {outcome} ({difference:.1e})")
    return success


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=ENGINES, help="measure this engine in this process")
    parser.add_argument("--length", type=int, help="length in tokens, with --engine")
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--limit", type=float, default=30.0, help="seconds after which no longer text is measured"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="compare the outputs and exit")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.check:
        raise SystemExit(0 if check() else 1)
    if options.engine and options.length:
        measure(options.engine, 2048)
        print(json.dumps(measure(options.engine, options.length)))
        return
    if options.engine:
        serve(options.engine, options.threads)
        return
    start = time.perf_counter()
    results = collect(options.only, options.lengths, options.rounds, options.limit, options.threads)
    result = {"machine": machine(), "rounds": options.rounds, "engines": results}
    section = describe(result)
    print(section)
    print(f"{time.perf_counter() - start:.0f} s in total")
    if options.write:
        draw(results, DOCS / "images" / "attention.svg")
        write_results("attention", result, section)


if __name__ == "__main__":
    main()
