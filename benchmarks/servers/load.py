"""Send requests to a server, from a process of its own, and measure the answers.

    python load.py WORK.json OUT.json

Closed loop: each client sends its next request when it has the answer to its last one. Open loop:
requests are sent at random times (Poisson) whatever the server does, and latency counts from the
time at which a request was due. Answers are parsed by C while the server is measured, and read
afterwards.
"""

import asyncio
import json
import math
import random
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httptools
import uvloop

HOST = "127.0.0.1"
MAX_CONNECTIONS = 448  # of an open loop; later requests wait for one, which counts as latency
DRAIN_SECONDS = 120  # for the last answers
PAUSE = 0.05  # before a client connects again
FIRST_TEXT = re.compile(rb'^data: ?{.*"text": ?"[^"]', re.MULTILINE)  # an event with text


@dataclass(frozen=True)
class Work:
    """Requests, and the times at which they are sent."""

    port: int
    path: str
    bodies: list[str]  # sent in turn
    clients: int = 0  # of a closed loop
    rate: float = 0.0  # requests a second of an open loop
    warm_up: float = 2.0
    seconds: float = 10.0
    min_answers: int = 20  # in a closed loop, which is measured longer for them
    max_seconds: float = 60.0  # but not for more


@dataclass(slots=True)
class Answer:
    """One request and its answer; times are those of the process."""

    text: int  # index of the body that was sent
    due: float
    first: float = 0.0  # time of the first text of a streamed answer
    end: float = 0.0
    status: int = 0  # 0: the connection was lost
    retry_after: str = ""
    parts: list[bytes] = field(default_factory=list)


class Connection(asyncio.Protocol):
    """A connection that is kept alive, with one request at a time."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._answer: Answer | None = None
        self.is_open = True
        self.is_used = False  # it has had an answer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        _, connection = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        return connection

    async def ask(self, request: bytes, answer: Answer) -> None:
        """Send a request and wait until its answer is complete."""
        self._answer = answer
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._done

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._end(0)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answer is not None and name.lower() == b"retry-after":
            self._answer.retry_after = value.decode()

    def on_body(self, part: bytes) -> None:
        answer = self._answer
        if answer is None:
            return
        if not answer.first and FIRST_TEXT.search(part):
            answer.first = time.perf_counter()
        answer.parts.append(part)

    def on_message_complete(self) -> None:
        if not self._parser.should_keep_alive():
            self._transport.close()
            self.is_open = False
        self.is_used = True
        self._end(self._parser.get_status_code())

    def _end(self, status: int) -> None:
        if self._answer is None:
            return
        self._answer.status, self._answer.end = status, time.perf_counter()
        if status != 200:
            self._answer.parts.clear()
        self._answer = None
        self._done.set_result(None)


class Load:
    """The requests of a measurement and their answers.

    Args:
        work: What is sent, and when.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._requests = [_request(work, body) for body in work.bodies]
        self._idle: list[Connection] = []
        self._slots = asyncio.Semaphore(work.clients or MAX_CONNECTIONS)
        self.sent = 0
        self.answers: list[Answer] = []
        self.begin = self.end = 0.0  # of the measurement
        self.cpu_seconds = 0.0  # of this process, while it measured

    async def run(self) -> None:
        """Send all requests and wait for their answers."""
        await self._wait_until_ready()
        if self._work.clients:
            sending = [asyncio.create_task(self._client()) for _ in range(self._work.clients)]
        else:
            sending = [asyncio.create_task(self._arrivals())]
        await asyncio.sleep(self._work.warm_up)
        self.begin, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(self._work.seconds)
        while not self._has_enough():
            await asyncio.sleep(PAUSE)
        self.end, self.cpu_seconds = time.perf_counter(), time.process_time() - cpu
        await asyncio.wait(sending, timeout=DRAIN_SECONDS)

    async def _wait_until_ready(self) -> None:
        """Send requests until one is answered: then the model is loaded."""
        while (await self._send(time.perf_counter())).status != 200:
            await asyncio.sleep(PAUSE)
        self.answers.clear()
        self.sent = 0

    def _has_enough(self) -> bool:
        """Return whether there are answers enough, or the time for them is over."""
        seconds = time.perf_counter() - self.begin
        if self._work.rate or seconds > self._work.max_seconds:
            return True
        measured = sum(answer.end >= self.begin for answer in self.answers)
        return measured >= max(self._work.min_answers, self._work.clients)

    async def _client(self) -> None:
        while not self.end:
            answer = await self._send(time.perf_counter())
            if not answer.status:
                await asyncio.sleep(PAUSE)

    async def _arrivals(self) -> None:
        """Send requests at the times of a Poisson process."""
        draw, due = random.Random(0), time.perf_counter()
        sending = set()
        while not self.end:
            await asyncio.sleep(due - time.perf_counter())
            sending.add(task := asyncio.create_task(self._send(due)))
            task.add_done_callback(sending.discard)
            due += draw.expovariate(self._work.rate)
        if sending:
            await asyncio.wait(sending)

    async def _send(self, due: float) -> Answer:
        """Send the next request on a connection that is idle, or a new one."""
        answer = Answer(self.sent % len(self._requests), due)
        self.sent += 1
        async with self._slots:
            while not answer.status:
                try:
                    connection = await self._connection()
                    await connection.ask(self._requests[answer.text], answer)
                except OSError:
                    answer.end = time.perf_counter()
                    break
                if connection.is_open:
                    self._idle.append(connection)
                elif not connection.is_used:  # otherwise the server has ended an idle connection
                    break
        self.answers.append(answer)
        return answer

    async def _connection(self) -> Connection:
        while self._idle:
            if (connection := self._idle.pop()).is_open:
                return connection
        return await Connection.open(self._work.port)


def _request(work: Work, body: str) -> bytes:
    content = body.encode()
    head = (
        f"POST {work.path} HTTP/1.1\r\nHost: {HOST}:{work.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def summarize(load: Load) -> dict[str, Any]:
    """Return the rates and times of the answers that ended while it was measured."""
    measured = [answer for answer in load.answers if load.begin <= answer.end <= load.end]
    good = [answer for answer in measured if answer.status == 200]
    seconds = load.end - load.begin
    return {
        "requests_per_second": len(good) / seconds,
        "sent_per_second": sum(load.begin <= a.due <= load.end for a in load.answers) / seconds,
        "latency": percentiles([answer.end - answer.due for answer in good]),
        "first_token": percentiles([a.first - a.due for a in good if a.first]),
        "client_cpu": load.cpu_seconds / seconds,
        "answers": len(load.answers),
        "unanswered": load.sent - len(load.answers),
        "statuses": Counter(str(answer.status) for answer in load.answers),
        "without_retry_after": sum(
            answer.status == 429 and not answer.retry_after.isdecimal() for answer in load.answers
        ),
        "texts": _texts(load.answers),
    }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median, and the 95th and 99th percentile."""
    ordered = sorted(seconds)
    if not ordered:
        return {}
    return {str(p): ordered[math.ceil(p / 100 * len(ordered)) - 1] for p in (50, 95, 99)}


def _texts(answers: Sequence[Answer]) -> dict[int, dict[str, Any]]:
    """Return, by the index of a body, how often each text answered it, and the median latency."""
    texts: dict[int, Counter[str]] = defaultdict(Counter)
    latencies = defaultdict(list)
    for answer in answers:
        if answer.status == 200:
            texts[answer.text][text_of(b"".join(answer.parts))] += 1
            latencies[answer.text].append(answer.end - answer.due)
    return {
        index: {"answers": texts[index], "latency": statistics.median(latencies[index])}
        for index in sorted(texts)
    }


def text_of(body: bytes) -> str:
    """Return the text of an answer: a translation, a completion, or a streamed completion."""
    if body.startswith(b"data:"):
        events = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
        return "".join(text_of(event) for event in events if event.strip() != b"[DONE]")
    answer = json.loads(body)
    if "translatedText" in answer:
        return str(answer["translatedText"])
    return "".join(choice["text"] or "" for choice in answer["choices"])


async def _measured(work: Work) -> dict[str, Any]:
    load = Load(work)
    await load.run()
    return summarize(load)


def main() -> None:
    work = Work(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(_measured(work))
    Path(sys.argv[2]).write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
