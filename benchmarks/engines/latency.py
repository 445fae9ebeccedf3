"""Measure the time of each text alone in Regard, called in this process: a server adds to it.

It has the protocol of an engine, with the latency of each line in the result.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

from common import Work


def main() -> None:
    work = Work.from_arguments()
    os.environ["REGARD_THREADS"] = str(work.threads * work.workers)
    import regard

    model = regard.load(work.model, bits=work.bits)

    def decode(line: str) -> str:
        if work.tokens:
            return str(model.candidates([line], work.tokens)[0][0])
        return str(model.translate([line], to="en")[0])

    outputs = [decode(line) for line in work.lines]
    latencies: list[list[float]] = [[] for _ in work.lines]
    end = time.perf_counter() + work.seconds
    while not latencies[-1] or time.perf_counter() < end:
        for line, times in zip(work.lines, latencies, strict=True):
            begin = time.perf_counter()
            decode(line)
            times.append(time.perf_counter() - begin)
    result = {"latencies": [statistics.median(times) for times in latencies], "outputs": outputs}
    Path(sys.argv[2]).write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
