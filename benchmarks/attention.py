"""What does attention cost as the text grows, beside that of others?

    python benchmarks/attention.py --write
    python benchmarks/attention.py --check          does each compute what ours does?
    python benchmarks/attention.py --engine NAME --length 4096

The attention itself, forward and backward, without projections: 4 heads of 64, one text, float32.
Each engine has a process of its own and is asked by turns, length by length. Memory is the peak of
what the process holds above what it held before, when queries, keys, values and their gradients
were there already.
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
from report import DOCS, keep, machine, table

HEADS, SIZE = 4, 64
WINDOW, RANK = 256, 256
LENGTHS = tuple(2**power for power in range(9, 17))
LARGE, COMPARED = 4096, 16_384  # exponents are fitted from here on; ratios are taken here
MOST = 8 * 2**30  # bytes
ENOUGH = 10.0  # a point that took so many seconds is measured once

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Engine:
    """`build(length)` gives the attention and its parameters, if it has any."""

    pattern: str
    build: Callable[[int], Attend | nn.Module]
    backward: bool = True  # whether there is a way back
    ours: bool = False


def _ours(pattern: str, causal: bool, **spec: Any) -> Engine:
    def build(length: int) -> nn.Module:
        from regard.attention.base import AttentionSpec
        from regard.attention.masks import AttentionMask
        from regard.positions.base import InAttention, Sizes

        sizes = Sizes(HEADS * SIZE, HEADS, SIZE, length)
        attention = AttentionSpec.model_validate(spec).build(sizes)
        here = torch.device("cpu")
        view = (
            AttentionMask.causal(0, length, here)
            if causal
            else AttentionMask.bidirectional(length, here)
        )
        return _Bound(attention, view, InAttention())

    return Engine(pattern, build, ours=True)


class _Bound(nn.Module):
    def __init__(self, attention: nn.Module, view: Any, position: Any) -> None:
        super().__init__()
        self.attention, self.view, self.position = attention, view, position

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found: Tensor = self.attention(q, k, v, self.view, self.position)
        return found


def _sdpa(causal: bool) -> Callable[[int], Attend]:
    return lambda _: lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _local_attention(causal: bool) -> Callable[[int], Attend]:
    def build(_: int) -> Attend:
        from local_attention import LocalAttention

        ahead = 0 if causal else 1
        attention: Attend = LocalAttention(
            WINDOW, causal=causal, exact_windowsize=True, look_backward=1, look_forward=ahead
        )
        return attention

    return build


def _longformer(_: int) -> Attend:
    """The products over sliding chunks and the softmax between them; its own projections, its mask
    of padding and its global words are left out."""
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    config = LongformerConfig(
        hidden_size=HEADS * SIZE, num_attention_heads=HEADS, attention_window=[2 * WINDOW]
    )
    layer = LongformerSelfAttention(config, layer_id=0)

    def dot_product_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q / math.sqrt(SIZE), k, v))
        weights = layer._sliding_chunks_query_key_matmul(q, k, WINDOW).softmax(-1)
        found: Tensor = layer._sliding_chunks_matmul_attn_probs_value(weights, v, WINDOW)
        return found.transpose(1, 2)

    return dot_product_attention


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
    layer = BigBirdBlockSparseAttention(config, seed=0).train()  # in eval it draws nothing
    blocked, band, asking, asked = BigBirdModel.create_masks_for_block_sparse_attn(
        torch.ones(1, length), block
    )

    def dot_product_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        masks = (band, asking, asked, blocked, blocked)
        sizes = (HEADS, blocks, SIZE, block, block, 1, length, length)
        found, _ = layer.bigbird_block_sparse_attention(q, k, v, *masks, *sizes, 0, None, None)
        return found.transpose(1, 2)

    return dot_product_attention


def _flex(pattern: str) -> Callable[[int], Attend]:
    """Compiled, with a mask by blocks that is made before."""

    def build(length: int) -> Attend:
        from torch.nn.attention.flex_attention import BlockMask, flex_attention

        allowed, block = _predicate(pattern, length), 64 if pattern == "BigBird" else 128
        own = torch.arange(-(-length // block))
        edges = [(own * block)[:, None], (own * block + block - 1)[:, None]]
        # A block of pairs is seen where any of its pairs is: with these patterns, a corner.
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
    if pattern == "window, centred":
        return lambda _b, _h, i, j: (i - j <= WINDOW) & (j - i <= WINDOW)
    from regard.attention.bigbird import Spec

    block = Spec().block
    first = torch.arange(0, length, block)
    seen = Spec().build(_sizes(length))._pattern(length).allows(first[:, None], first)
    return lambda _b, _h, i, j: seen[i // block, j // block]


def _sizes(length: int) -> Any:
    from regard.positions.base import Sizes

    return Sizes(HEADS * SIZE, HEADS, SIZE, length)


ENGINES: Mapping[str, Engine] = {
    "torch SDPA": Engine("full", _sdpa(False)),
    "Regard fused": _ours("full", False, kind="fused"),
    "torch SDPA, causal": Engine("full, causal", _sdpa(True)),
    "Regard fused, causal": _ours("full, causal", True, kind="fused"),
    "Regard window, causal": _ours("window, causal", True, kind="window", size=WINDOW),
    "local-attention, causal": Engine("window, causal", _local_attention(True)),
    "torch flex, causal window": Engine("window, causal", _flex("window, causal"), False),
    "Regard window": _ours("window, centred", False, kind="window", size=WINDOW),
    "local-attention": Engine("window, centred", _local_attention(False)),
    "Longformer": Engine("window, centred", _longformer),
    "torch flex, window": Engine("window, centred", _flex("window, centred"), False),
    "Regard window, dilated": _ours(
        "window, causal, dilated", True, kind="window", size=2 * WINDOW, dilation=2
    ),
    "Regard BigBird": _ours("BigBird", False, kind="bigbird"),
    "Hugging Face BigBird": Engine("BigBird", _hugging_face_bigbird),
    "torch flex, BigBird": Engine("BigBird", _flex("BigBird"), False),
    "Regard Linformer": _ours("Linformer", False, kind="linformer", rank=RANK),
    "Regard blocks": _ours("blocks, causal", True, kind="block-local"),
    "Regard compressed": _ours("compressed, causal", True, kind="compressed"),
    "Regard linear": _ours("linear, causal", True, kind="linear"),
}
ONE_WAY = {each.pattern for each in ENGINES.values() if not each.backward}
SQUARE = ("full", "full, causal", "compressed, causal")  # these grow with the square by nature
OTHERWISE = {  # as many pairs, but not the same
    "Hugging Face BigBird": "its global blocks are the first and the last, and each head draws "
    "blocks of its own, anew at each call"
}


# In the process of an engine


def measure(name: str, length: int) -> dict[str, Any]:
    """Seconds and bytes, forward and with the way back; or why there are none."""
    engine = ENGINES[name]
    try:
        with torch.set_grad_enabled(engine.backward):
            dot_product_attention, leaves = engine.build(length), _leaves(length, engine.backward)
            if isinstance(dot_product_attention, nn.Module):
                parameters = list(dot_product_attention.parameters())
                for each in parameters:
                    each.grad = torch.zeros_like(each)
            found = {}
            if engine.pattern in ONE_WAY:
                with torch.no_grad():
                    dot_product_attention(
                        *leaves
                    )  # whatever is compiled or planned for a length has been
                    found = _measured(dot_product_attention, leaves)
            if engine.backward:
                found |= _measured(
                    dot_product_attention, leaves, torch.randn(1, HEADS, length, SIZE)
                )
            return found
    except (RuntimeError, MemoryError) as error:
        if "alloc" in str(error) or isinstance(error, MemoryError):
            return {"why": f"over {MOST // 2**30} GB"}
        raise
    except (ValueError, IndexError) as error:  # a peer that does not take this length
        return {"why": f"refused ({error})", "passes": True}


def _measured(
    dot_product_attention: Attend | nn.Module,
    leaves: Sequence[Tensor],
    toward: Tensor | None = None,
) -> dict[str, Any]:
    what = "forward" if toward is None else "both"
    _give_back()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    held, began = _held("VmRSS"), time.perf_counter()
    found = dot_product_attention(*leaves)
    if toward is not None:
        found.backward(toward)
    return {what: time.perf_counter() - began, f"{what} memory": _held("VmHWM") - held}


def _give_back() -> None:
    """What was freed is no longer held."""
    ctypes.CDLL(None).malloc_trim(0)


def _leaves(length: int, backward: bool) -> list[Tensor]:
    """Queries, keys and values, their gradients made."""
    chance = torch.Generator().manual_seed(length)
    leaves = [torch.randn(1, HEADS, length, SIZE, generator=chance) for _ in range(3)]
    if backward:
        for each in leaves:
            each.requires_grad_().grad = torch.zeros_like(each)
    return leaves


def _held(what: str) -> int:
    """Bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(what)


def serve(name: str, threads: int) -> None:
    """Lengths from standard input, a line of JSON for each."""
    import resource

    torch.set_num_threads(threads)
    keep_freed_memory()  # as in training: else large tensors are paid for in page faults, small not
    measure(name, 2048)  # whatever is made once has been made
    limit = _held("VmData") + MOST
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    print("ready", flush=True)
    for line in sys.stdin:
        found = measure(name, int(line))
        _give_back()  # others are waiting
        print(json.dumps(found), flush=True)


# In the process that asks them


class Asked:
    """An engine in its own process."""

    def __init__(self, name: str, threads: int) -> None:
        command = [sys.executable, __file__, "--engine", name, "--threads", str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ready(self) -> None:
        self._answer()

    def __call__(self, length: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{length}\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._answer())
        return found

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process ended: {self._process.args}")
        return line


Points = dict[int, dict[str, Any]]  # by length


def collect(
    names: Sequence[str], lengths: Sequence[int], rounds: int, limit: float, threads: int
) -> dict[str, Points]:
    """By turns: all engines at a length, round after round; those that are slow only once."""
    say("starting")
    asked = {name: Asked(name, threads) for name in names}
    for name, each in asked.items():
        say(f"waiting for {name}")
        each.ready()
    found: dict[str, Points] = {name: {} for name in names}
    for length in lengths:
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for turn, name in itertools.product(range(rounds), names):
            say(f"{length:,}: round {turn + 1} of {rounds}, {name}")
            why = _why_not(found[name], limit) or _why(runs[name])
            if why:
                runs[name] = [{"why": why}]
            elif not runs[name] or _seconds(runs[name][-1]) < ENOUGH:
                runs[name].append(asked[name](length))
        for name, each in runs.items():
            found[name][length] = _median(each)
    say("")
    for engine in asked.values():
        engine.end()
    return found


def _why_not(points: Points, limit: float) -> str | None:
    last = list(points.values())[-1:]
    if last and "why" not in last[0] and _seconds(last[0]) > limit:
        return f"the last took over {limit:g} s"
    return None if last and last[0].get("passes") else _why(last)


def _why(runs: Sequence[Mapping[str, Any]]) -> str | None:
    return next((str(each["why"]) for each in runs if "why" in each), None)


def _seconds(point: Mapping[str, Any]) -> float:
    return float(point.get("both", point.get("forward", 0.0)))


def _median(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if "why" in runs[0]:
        return dict(runs[0])
    return {key: statistics.median(each[key] for each in runs) for key in runs[0]}


def say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


# What it tells


def exponent(points: Points, key: str) -> float | None:
    """The slope of the logarithms from LARGE on."""
    pairs = [
        (math.log(length), math.log(point[key]))
        for length, point in points.items()
        if length >= LARGE and point.get(key, 0) > 0
    ]
    if len(pairs) < 2:
        return None
    return statistics.linear_regression(*zip(*pairs, strict=True)).slope


def pays_from(points: Points, full: Points, key: str) -> float | None:
    """The length at which it crosses full attention for good, between those measured."""
    both = [
        (math.log(length), math.log(point[key] / full[length][key]))
        for length, point in points.items()
        if key in point and key in full[length]
    ]
    behind = [at for at, (_, ratio) in enumerate(both) if ratio >= 0]
    if not behind:
        return both[0][0] and math.exp(both[0][0])
    if behind[-1] + 1 == len(both):
        return None
    (x0, y0), (x1, y1) = both[behind[-1]], both[behind[-1] + 1]
    return math.exp(x0 + (x1 - x0) * y0 / (y0 - y1))


def rows_of(
    found: Mapping[str, Points], key: str, shown: Callable[[float], str]
) -> list[list[str]]:
    rows = []
    for name, points in found.items():
        slope = exponent(points, key)
        cells = [shown(point[key]) if key in point else "—" for point in points.values()]
        rows.append([name, *cells, "—" if slope is None else f"{slope:.2f}"])
    return rows


def left_out(found: Mapping[str, Points]) -> Iterator[str]:
    for name, points in found.items():
        for length, point in points.items():
            if "why" in point:
                yield f"{name} from {length:,}: {point['why']}"
                break


def compared(found: Mapping[str, Points]) -> list[list[str]]:
    """Each of ours at COMPARED, beside full attention and beside its peers."""
    rows = []
    for name, points in found.items():
        if not ENGINES[name].ours or ENGINES[name].pattern.startswith("full"):
            continue
        pattern = ENGINES[name].pattern
        full = "torch SDPA, causal" if "causal" in pattern else "torch SDPA"
        same = [x for x in found if ENGINES[x].pattern == pattern and not ENGINES[x].ours]
        for other in [full, *same]:
            key = "both" if ENGINES[other].backward else "forward"
            one, two = points.get(COMPARED, {}), found.get(other, {}).get(COMPARED, {})
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


def _not_square(found: Mapping[str, Points]) -> list[str]:
    return [name for name in found if ENGINES[name].ours and ENGINES[name].pattern not in SQUARE]


def section_of(result: Mapping[str, Any], found: Mapping[str, Points]) -> str:
    lengths = list(next(iter(found.values())))
    head = ["", *(f"{length:,}" for length in lengths), "exponent"]
    two_ways = {name: each for name, each in found.items() if ENGINES[name].backward}
    one_way = {name: each for name, each in found.items() if ENGINES[name].pattern in ONE_WAY}
    pays = []
    for name, points in found.items():
        full = "torch SDPA, causal" if "causal" in ENGINES[name].pattern else "torch SDPA"
        if name == full or not ENGINES[name].backward or ENGINES[name].pattern.startswith("full"):
            continue
        cells = []
        for key in ("both", "both memory"):
            begin = pays_from(points, found[full], key) if full in found else None
            cells.append("not measured to" if begin is None else f"{begin:,.0f}")
        pays.append([name, *cells])
    of = result["machine"]
    parts = [
        f"""## Attention over long texts

The attention itself, without projections: {HEADS} heads of {SIZE}, one text, float32,
{of["threads"]} thread(s), {of["cpu"]}, torch {of["torch"]}. Each engine in a process of its own, by
turns, {result["rounds"]} rounds, medians; what took more than {ENOUGH:g} s was measured once.
Windows reach {WINDOW} words back (and, centred, as many ahead); dilated, every second of
{2 * WINDOW}; Linformer has rank {RANK}; BigBird has blocks of 64, a window of three, two global and
three drawn. Memory is the peak above queries, keys, values and their gradients; the processes keep
what they free, as in training. The exponent is the
slope of the logarithms from {LARGE:,} words on.

Forward and backward, in seconds:

{table(head, rows_of(two_ways, "both", lambda x: f"{x:.3g}"))}

![Time over length](../images/attention.svg)

Peak memory, in MB:

{table(head, rows_of(two_ways, "both memory", lambda x: f"{x / 1e6:,.0f}"))}"""
    ]
    if one_way:
        parts.append(f"""torch's flex_attention has no way back on a CPU. Forward alone, in seconds,
with nothing kept for a way back; the compiling and the making of its mask are left out:

{table(head, rows_of(one_way, "forward", lambda x: f"{x:.3g}"))}""")
    left = list(left_out(found))
    if left:
        parts.append(f"Not measured: {'; '.join(left)}.")
    parts.append(f"""At {COMPARED:,} words, how many times the time and the memory of Regard the
other one takes:

{table(["", "the other", "", "time", "memory"], compared(found))}""")
    steepest = [
        max((exponent(found[name], key) or 0.0, name) for name in _not_square(found))
        for key in ("both", "both memory")
        if _not_square(found)
    ]
    if steepest:
        (time_, slow), (memory, large) = steepest
        parts.append(f"""Where Regard does not look at all pairs, its largest exponent is
{time_:.2f} in time ({slow}) and {memory:.2f} in memory ({large}).""")
    parts.append(f"""From how many words on it pays, in time and in memory, beside full attention
through torch's fused kernel (causal beside causal):

{table(["", "time", "memory"], pays)}""")
    notes = [f"{name}: {how}" for name, how in OTHERWISE.items() if name in found]
    if notes:
        parts.append(
            f"Not quite the same: {'; '.join(notes)}. All else of one pattern computes the same."
        )
    return "\n\n".join(parts)


def draw(found: Mapping[str, Points], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "regard"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, points in found.items():
        line = [(length, point["both"]) for length, point in points.items() if "both" in point]
        if line and name not in ("Regard fused", "Regard fused, causal"):  # those are torch's
            style = "-" if ENGINES[name].ours else "--"
            axes.plot(*zip(*line, strict=True), style, marker="o", markersize=3, label=name)
    axes.set(xscale="log", yscale="log", xlabel="words", ylabel="seconds, forward and backward")
    axes.set_xticks(list(next(iter(found.values()))))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.minorticks_off()
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def check(length: int = 1024) -> bool:
    """Whether peers answer, and send back, what ours do."""
    good = True
    for name, engine in ENGINES.items():
        mine = next((x for x in ENGINES.values() if x.ours and x.pattern == engine.pattern), None)
        if engine.ours or mine is None:
            continue
        answers = []
        for each in (engine, mine):
            with torch.set_grad_enabled(engine.backward):
                leaves = _leaves(length, engine.backward)
                found = each.build(length)(*leaves)
                if engine.backward:
                    found.backward(leaves[0].detach())
                gradients = [x.grad for x in leaves if x.grad is not None]
                answers.append([found.detach(), *gradients])
        apart = max((one - two).abs().max().item() for one, two in zip(*answers, strict=True))
        same = apart < 1e-4
        good &= same or name in OTHERWISE
        print(
            f"{name}: {'the same' if same else OTHERWISE.get(name, 'NOT the same')} ({apart:.1e})"
        )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=ENGINES, help="measure this one, in this process")
    parser.add_argument("--length", type=int, help="with --engine")
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=30.0, help="seconds; then no longer text")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="compare the answers and go")
    parser.add_argument("--write", action="store_true", help="into docs/")
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
    asked = (options.only, options.lengths, options.rounds, options.limit, options.threads)
    began = time.perf_counter()
    found = collect(*asked)
    result = {"machine": machine(), "rounds": options.rounds, "engines": found}
    section = section_of(result, found)
    print(section)
    print(f"{time.perf_counter() - began:.0f} s in all")
    if options.write:
        draw(found, DOCS / "images" / "attention.svg")
        keep("attention", result, section)


if __name__ == "__main__":
    main()
