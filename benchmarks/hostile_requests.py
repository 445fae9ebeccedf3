"""Hostile requests: a real server must answer or close, go on, and not grow.

    python benchmarks/hostile_requests.py                       10,000; writes robustness.md
    python benchmarks/hostile_requests.py --cases 500 --seed 7  other ones; writes nothing
    python benchmarks/hostile_requests.py --case 1234           send one again and show its answer

`regard serve` runs on loopback with a translator and small models of other tasks. Damaged bodies,
heads and connections are sent to all of its routes, a few at a time. An answer with a status of 5xx
other than 503 and 504, no answer to a whole request, a traceback in the log, a worker that crashes
and another answer to a good request in between are defects. Afterwards schemathesis sends what the
OpenAPI document of the server allows, and what it does not.
"""

import argparse
import contextlib
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).parent))

from hostile_input.requests import HostileRequest, Operation, make
from random_run import write_random_run
from regard.data.tokenizers import bpe
from report import machine, table, write_results

CASES, SEED, CLIENTS = 10_000, 0, 8
OPTIONS = ("--port", "0", "--json-logs", "--max-seconds", "20")
EXAMPLES = 200  # of schemathesis, for each operation
ANSWER_SECONDS = 60.0  # for a whole request
IDLE_SECONDS = 30.0  # until nothing is computed any more, when all clients are gone
PATIENCE = 1.0  # with the answer to half a request
WAIT_SECONDS = 40.0  # until the server closes a connection that it waits for
CHECK_EVERY = 250  # requests
MEASURE_EVERY = 1000  # requests
BY_DESIGN = (503, 504)
# Some valid requests are refused for reasons that a schema cannot say, as an unknown model; and
# Starlette's Allow header has the methods of one of a path's routes.
NOT_CHECKED = "positive_data_acceptance,allow_header_conformance"
KINDS = {
    "2xx": "answered",
    "4xx": "refused",
    "5xx": "503 or 504",
    "closed": "closed, or not awaited",
}

SMALL = {"dim": 32, "heads": 2, "ffn_dim": 64, "layers": 2, "max_length": 200}
MODELS = {
    "lm": ("language-model", {"kind": "language-model"}),
    "masked": ("masked-lm", {"kind": "masked-lm"}),
    "classifier": ("classification", {"kind": "classifier", "classes": 2}),
    "encoder": ("encoder", {"kind": "encoder"}),
}
TRANSLATION = {"q": "Le chat dort.", "source": "fr", "target": "en"}
PROMPT = {"model": "lm", "prompt": "the cat", "max_tokens": 8}
CHAT = {"model": "fr-en", "messages": [{"role": "user", "content": "Le chat dort."}]}
INPUTS = {"fr-en": "Le chat dort.", "lm": "the cat", "masked": "the <mask> sleeps"}
INPUTS |= {"classifier": "the cat", "encoder": "the cat"}
DOCUMENTS = "/regard/documents/"
SUBTITLES = "1\n00:00:01,000 --> 00:00:02,000\nLe chat dort.\n\n2\n00:00:03,000 --> x\n<i>a</i>\n"
CATALOG = (
    'msgid ""\nmsgstr ""\n"Plural-Forms: nplurals=2; plural=n>1;\\n"\n\nmsgid "chat"\nmsgstr ""\n'
)
FILES = {"a.srt": SUBTITLES.encode(), "a.po": CATALOG.encode(), "a.txt": b"Le chat dort.\n\nOui.\n"}
FORM_TYPE = "multipart/form-data; boundary=x"
FIELDS = {"source": "fr", "target": "en", 'file"; filename="a.srt': SUBTITLES}
FORM = (
    "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in FIELDS.items()
    ).encode()
    + b"--x--\r\n"
)
OPERATIONS = [
    Operation("POST", "/translate", TRANSLATION),
    Operation("POST", "/translate", {**TRANSLATION, "format": "html", "alternatives": 2}),
    Operation("POST", "/detect", {"q": "Le chat dort."}),
    Operation("POST", "/suggest", {**TRANSLATION, "s": "The cat sleeps."}),
    Operation("POST", "/translate_file", None, "", FORM, FORM_TYPE),
    Operation("GET", "/download_file/x", None, "/download_file/{name}"),
    Operation("GET", "/languages"),
    Operation("GET", "/frontend/settings"),
    Operation("POST", "/v2/translate", {"text": ["Le chat dort."], "target_lang": "EN"}),
    Operation("GET", "/v2/languages?type=target", None, "/v2/languages"),
    Operation("GET", "/v2/usage"),
    Operation("GET", "/v1/models"),
    Operation("GET", "/v1/models/lm", None, "/v1/models/{model}"),
    Operation("POST", "/v1/completions", PROMPT),
    Operation("POST", "/v1/completions", {**PROMPT, "stream": True, "logprobs": 2, "n": 2}),
    Operation("POST", "/v1/chat/completions", CHAT),
    Operation("POST", "/v1/chat/completions", {**CHAT, "stream": True}),
    Operation("POST", "/v1/embeddings", {"model": "encoder", "input": ["the cat"]}),
    Operation("POST", "/regard/translate/fr-en", {"texts": ["Le chat dort."]}, "/regard/{task}"),
    Operation("POST", "/regard/generate/lm", {"prompts": ["the cat"]}, "/regard/{task}"),
    *(
        Operation(
            "POST", f"{DOCUMENTS}fr-en?name={name}&to=en", None, f"{DOCUMENTS}{{model}}", file
        )
        for name, file in FILES.items()
    ),
    Operation("POST", "/regard/fill/masked", {"texts": ["the <mask> sleeps"]}, "/regard/{task}"),
    Operation("POST", "/regard/classify/classifier", {"texts": ["the cat"]}, "/regard/{task}"),
    *(
        Operation("POST", f"/models/{name}", {"inputs": text}, "/models/{name}")
        for name, text in INPUTS.items()
    ),
    Operation("POST", "/models/lm", {"inputs": "the cat", "stream": True}, "/models/{name}"),
    Operation(
        "POST", "/models/classifier/text-classification", {"inputs": "a"}, "/models/{name}/…"
    ),
    Operation("GET", "/"),
    Operation("GET", "/regard/assets/page.css", None, "/regard/assets/{name}"),
    Operation("GET", "/regard/server"),
    Operation("GET", "/regard/look/"),
    Operation("POST", "/regard/look/look", {"model": "fr-en", "text": "Le chat dort."}),
    Operation("GET", "/healthz"),
    Operation("GET", "/readyz"),
    Operation("GET", "/metrics"),
    Operation("GET", "/openapi.json"),
]


@dataclass(frozen=True)
class Outcome:
    """The end of a request: a status, or the end of the connection."""

    kind: str  # of KINDS, or "defect"
    detail: str
    seconds: float


@dataclass
class Server:
    """The server process and its log."""

    process: "subprocess.Popen[str]"
    url: str
    log: Path
    good_answers: dict[str, Any] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def get(self, path: str) -> str:
        with urlopen(f"{self.url}{path}", timeout=ANSWER_SECONDS) as answer:
            return str(answer.read().decode())

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        request = Request(f"{self.url}{path}", json.dumps(body).encode(), headers)
        with urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return json.load(answer)

    def megabytes(self) -> dict[str, float]:
        """Return the memory of the server and of its workers; shared pages count once."""
        own = self.process.pid
        workers = [pid for pid, parent in _parents() if parent == own]
        named = {"server": own} | {f"{_model(pid)} {pid}": pid for pid in workers}
        return {name: round(_pss(pid) / 2**20) for name, pid in named.items()}

    def sum_of(self, metric: str) -> int:
        """Return a metric, of all models together."""
        values = re.findall(rf"^{metric}\{{.*\}} (\S+)", self.get("/metrics"), re.MULTILINE)
        return int(sum(map(float, values)))

    def await_rest(self) -> list[str]:
        """Wait until no request is computed; return what is wrong if there is one for long."""
        deadline = time.monotonic() + IDLE_SECONDS
        while time.monotonic() < deadline:
            if not self.sum_of("regard_active_requests") + self.sum_of("regard_waiting_requests"):
                return []
            time.sleep(0.5)
        return ["requests are computed whose clients are gone"]

    def problems(self) -> list[str]:
        """Return the tracebacks and bugs in the log, the ends of them."""
        lines = map(json.loads, self.log.read_text(errors="replace").splitlines())
        texts = (line.get("traceback") or line.get("message", "") for line in lines)
        return [text[-1000:] for text in texts if "Traceback" in text or "a bug" in text]

    def check(self) -> list[str]:
        """Return what is wrong with the answers to good requests."""
        answers = {
            "translation": self.post("/translate", TRANSLATION),
            "completion": self.post("/v1/completions", {**PROMPT, "temperature": 0})["choices"],
        }
        self.good_answers = self.good_answers or answers
        return [f"another {name}" for name in answers if answers[name] != self.good_answers[name]]


def _parents() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])


def _model(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return Path(words[words.index("regard.serving.worker") + 2]).name
    return "?"


def _pss(pid: int) -> int:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return sum(int(line.split()[1]) for line in text.splitlines() if "Pss:" in line[:4]) * 1024
    return 0


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Run `regard serve` with a translator and small models."""
    runs = write_runs(folder)
    command = [sys.executable, "-m", "regard", "serve", "fr-en", *map(str, runs)]
    log = folder / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*command, *OPTIONS], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            raise SystemExit(log.read_text())
        try:
            server = Server(process, line.split()[0], log)
            server.check()  # the first answers are the good ones
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(180)


def write_runs(folder: Path) -> list[Path]:
    """Write small models with random weights."""
    tokenizer = bpe.Spec(vocabulary=300).train(["the cat sleeps under the tree"] * 3, ["mask"])
    details = {"max_length": 200, "labels": ["negative", "positive"]}
    for name, (task, model) in MODELS.items():
        write_random_run(folder / name, task, {**SMALL, **model}, tokenizer, details=details)
    return [folder / name for name in MODELS]


def send(port: int, request: HostileRequest) -> Outcome:
    """Send a request as its client does; return the first answer, or the end of the connection."""
    start = time.monotonic()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS) as client:
            answer = _exchange(client, request)
    except TimeoutError:
        answer = "hang"
    seconds = time.monotonic() - start
    if answer in ("", "left"):
        is_defect = request.is_whole and request.ending == "read"
        return Outcome("defect" if is_defect else "closed", "no answer", seconds)
    if not answer.isdecimal():
        return Outcome("defect", answer, seconds)
    status = int(answer)
    if status >= 500 and status not in BY_DESIGN:
        return Outcome("defect", answer, seconds)
    return Outcome(f"{status // 100}xx", answer, seconds)


def _exchange(client: socket.socket, request: HostileRequest) -> str:
    """Return the status of the answer, "" for none, or a word."""
    for number, part in enumerate(request.parts):
        if number and request.pause:
            time.sleep(request.pause)
        with contextlib.suppress(ConnectionError):  # it may have been answered, and closed, already
            client.sendall(part)
    if request.ending == "close":
        return "left"
    if request.ending == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return "left"
    with contextlib.suppress(OSError):
        if request.ending == "shut":
            client.shutdown(socket.SHUT_WR)
    if request.ending == "wait":
        client.settimeout(WAIT_SECONDS)
    elif not request.is_whole:
        client.settimeout(PATIENCE)
    try:
        return _status(client)
    except TimeoutError:
        if request.is_whole or request.ending == "wait":
            return "hang"
        return "left"


def _status(client: socket.socket) -> str:
    """Return the status of the first answer, read to its end; "" if there is none."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while part := client.recv(1 << 16):
            data += part
            if _is_complete(data):
                break
    match = re.match(rb"HTTP/1\.1 (\d{3}) ", data)
    while match and match[1] == b"100":
        data = data.partition(b"\r\n\r\n")[2]
        match = re.match(rb"HTTP/1\.1 (\d{3}) ", data)
    if match:
        return match[1].decode()
    return f"no HTTP: {data[:100]!r}" if data else ""


def _is_complete(data: bytes) -> bool:
    head, separator, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    if not separator or head.startswith(b"HTTP/1.1 100"):
        return False
    return len(body) >= int(length[1]) if length else body.endswith(b"0\r\n\r\n")


def campaign(server: Server, numbers: range, seed: int) -> dict[str, Any]:
    """Send the requests of some numbers, print defects as they are found, return the counts."""
    routes: dict[str, Counter[str]] = defaultdict(Counter)
    defects: list[str] = []
    memory, slowest, begin = [], 0.0, time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as clients:
        for first in range(numbers.start, numbers.stop, CHECK_EVERY):
            batch = range(first, min(first + CHECK_EVERY, numbers.stop))
            requests = [make(number, seed, OPERATIONS) for number in batch]
            outcomes = clients.map(lambda request: send(server.port, request), requests)
            for request, outcome in zip(requests, outcomes, strict=True):
                routes[request.route][outcome.kind] += 1
                slowest = max(slowest, outcome.seconds)
                if outcome.kind == "defect":
                    defects.append(f"{request.number} {request.route} {request.damage}: {outcome}")
                    print(defects[-1], flush=True)
            defects += [f"after {batch.stop}: {problem}" for problem in server.check()]
            now = server.megabytes()
            if batch.stop % MEASURE_EVERY == 0:
                memory.append(sum(now.values()))
            print(f"{batch.stop:,}: {len(defects)} defects, {now}", flush=True)
    defects += server.await_rest()
    return {
        "cases": len(numbers),
        "seed": seed,
        "routes": {name: dict(sorted(counts.items())) for name, counts in sorted(routes.items())},
        "defects": defects,
        "worker_restarts": server.sum_of("regard_worker_restarts_total"),
        "megabytes": memory,
        "slowest_seconds": round(slowest, 1),
        "seconds": round(time.monotonic() - begin),
    }


def check_openapi(server: Server, examples: int) -> dict[str, Any]:
    """Send what the OpenAPI document allows, and what it does not; return what became of it."""
    folder = server.log.parent
    command = [str(Path(sys.executable).with_name("schemathesis")), "run"]
    command += [f"{server.url}/openapi.json", "--exclude-checks", NOT_CHECKED, "--no-shrink"]
    command += ["--phases", "coverage,fuzzing", "--max-examples", str(examples), "--seed", "1"]
    command += ["--continue-on-failure", "--request-timeout", str(ANSWER_SECONDS)]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8")
    cases = re.search(r"([\d,]+) generated", done.stdout)
    operations = re.search(r"Tested: (\d+)", done.stdout)
    if not cases or not operations:
        raise SystemExit(done.stdout + done.stderr)
    failures = re.findall(r"^\s+- (ST\d+ .*)", done.stdout, re.MULTILINE)
    if done.returncode:
        print(done.stdout[:20_000])
    return {
        "version": version("schemathesis"),
        "operations": int(operations[1]),
        "cases": int(cases[1].replace(",", "")),
        "failures": len(failures) or int(done.returncode != 0),
    }


def describe(result: Mapping[str, Any]) -> str:
    """Return the section of the page."""
    totals: Counter[str] = Counter()
    for counts in result["routes"].values():
        totals.update(counts)
    rows = [
        [name, *(f"{counts.get(kind, 0):,}" for kind in (*KINDS, "defect"))]
        for name, counts in [*result["routes"].items(), ("all", totals)]
    ]
    openapi = result["openapi"]
    return "\n\n".join(
        [
            "## Hostile requests",
            f"{result['cases']:,} hostile requests to a real server (`regard serve` with a "
            f"translator and small models of other tasks; seed {result['seed']}, {CLIENTS} "
            f"clients at a time, {result['seconds']:,} s): {len(result['defects'])} defects, "
            f"{result['worker_restarts']} crashes of a worker.",
            "JSON values, texts, numbers, depth, media types, paths, headers, chunks and bytes are "
            "damaged; bodies are too large; connections are half-open, slow, pipelined, reset, or "
            "left before the answer. A defect is a status of 5xx other than 503 and 504, no answer "
            "to a whole request, a traceback in the log, or another answer to one of the good "
            f"requests that are sent after every {CHECK_EVERY}.",
            table(["Route", *KINDS.values(), "defects"], rows),
            f"The server and its workers had {', '.join(map(str, result['megabytes']))} MB after "
            f"each {MEASURE_EVERY:,} requests: each thread keeps the memory of its longest text. "
            f"The slowest request took {result['slowest_seconds']:.1f} s. "
            "`python benchmarks/hostile_requests.py --case N` sends one again.",
            f"schemathesis {openapi['version']} sent {openapi['cases']:,} requests to the "
            f"{openapi['operations']} operations of the OpenAPI document: "
            f"{openapi['failures']} failures.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--case", type=int, help="send one case and show it")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="of each operation")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hostile-") as name, serving(Path(name)) as server:
        if options.case is not None:
            request = make(options.case, options.seed, OPERATIONS)
            print(request, send(server.port, request), *server.problems(), sep="\n")
            return
        result = campaign(server, range(options.cases), options.seed)
        result |= {"openapi": check_openapi(server, options.examples), "machine": machine()}
        result["defects"] += server.problems()
    print(json.dumps(result, indent=1))
    if (options.cases, options.seed, options.examples) == (CASES, SEED, EXAMPLES):
        write_results("hostile_requests", result, describe(result), page="robustness")
    if result["defects"] or result["openapi"]["failures"]:
        raise SystemExit(f"{len(result['defects'])} defects")


if __name__ == "__main__":
    main()
