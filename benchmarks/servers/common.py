"""An HTTP server around an engine that computes batches: FastAPI and uvicorn, as `regard serve`.

    python ENGINE.py MODEL TASK BITS WORKERS THREADS PORT

An engine is a function that decodes rows of ids. Requests that arrive while all workers compute
are the next batch, at most MAX_BATCH of them; the requests that are there are divided among the
workers. A worker whose batch would be smaller than its last one waits a moment for others: those of
clients that have just got their answers.
"""

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from json import dumps
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

MAX_BATCH = 64
LINGER = 0.01  # seconds
TARGET = "<en>"  # before the source, in the translator of the benchmark
MAX_TARGET = 191  # tokens of a translation

Rows = list[list[int]]
Emit = Callable[[list[tuple[int, int]]], None]  # rows of a batch with their next tokens
Decode = Callable[[Rows, list[int], Emit | None], Rows]  # sources, their limits → targets


@dataclass(frozen=True)
class Settings:
    """Arguments of a server."""

    model: str  # a folder in the engine's own format
    task: str  # translation or completion
    bits: int
    workers: int
    threads: int  # of each worker
    port: int

    @classmethod
    def from_arguments(cls) -> "Settings":
        model, task, *numbers = sys.argv[1:]
        return cls(model, task, *map(int, numbers))


class Translation(BaseModel):
    """The body of a request to LibreTranslate; there is only one direction."""

    q: str


class Completion(BaseModel):
    """The body of a request to OpenAI's completions; all are greedy."""

    prompt: str
    max_tokens: int = 16
    stream: bool = False


@dataclass(eq=False)
class Request:
    """A text that waits for its turn, and its answer."""

    text: str
    tokens: int  # the maximum number
    streams: bool = False
    ids: list[int] = field(default_factory=list)  # that answer it
    new_ids: asyncio.Queue[int | None] = field(default_factory=asyncio.Queue)  # if it streams
    done: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Batcher:
    """Decodes the requests that wait together, in the threads of some workers."""

    def __init__(self, decode: Decode, encode: Callable[[list[str]], Rows], workers: int) -> None:
        self._decode, self._encode, self._workers = decode, encode, workers
        self._pool = ThreadPoolExecutor(workers)

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[Request] = asyncio.Queue()
        self._unanswered = 0
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._workers)]

    def submit(self, request: Request) -> Request:
        self._unanswered += 1
        self._waiting.put_nowait(request)
        return request

    async def _work(self) -> None:
        """Compute one batch after another."""
        batch: list[Request] = []
        while True:
            batch_before, batch = batch, [await self._waiting.get()]
            if self._waiting.qsize() + 1 < len(batch_before):
                await asyncio.sleep(LINGER)
            share = math.ceil(self._unanswered / self._workers)
            while len(batch) < min(share, MAX_BATCH) and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            targets = await self._loop.run_in_executor(self._pool, self._compute, batch)
            self._unanswered -= len(batch)
            for request, ids in zip(batch, targets, strict=True):
                request.ids = ids[: request.tokens]
                request.new_ids.put_nowait(None)
                request.done.set_result(None)

    def _compute(self, batch: list[Request]) -> Rows:
        """Decode a batch; called in a thread of a worker."""
        rows = self._encode([request.text for request in batch])
        streams = any(request.streams for request in batch)

        def emit(step: list[tuple[int, int]]) -> None:
            self._loop.call_soon_threadsafe(_deliver, batch, step)

        limits = [request.tokens for request in batch]
        return self._decode(rows, limits, emit if streams else None)


def _deliver(batch: list[Request], step: list[tuple[int, int]]) -> None:
    for row, token in step:
        batch[row].new_ids.put_nowait(token)


def application(settings: Settings, decode: Decode) -> FastAPI:
    """Return the application, with a route of LibreTranslate and one of OpenAI."""
    tokenizer = Tokenizer.from_file(f"{settings.model}/tokenizer.json")
    tag = [tokenizer.token_to_id(TARGET)] if settings.task == "translation" else []

    def encode(texts: list[str]) -> Rows:
        return [tag + row.ids for row in tokenizer.encode_batch(texts, add_special_tokens=False)]

    batcher = Batcher(decode, encode, settings.workers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await batcher.start()
        yield

    app = FastAPI(lifespan=lifespan)

    async def text_of(request: Request) -> str:
        await batcher.submit(request).done
        return str(tokenizer.decode(request.ids))

    @app.post("/translate")
    async def translate(body: Translation) -> Response:
        return JSONResponse({"translatedText": await text_of(Request(body.q, MAX_TARGET))})

    @app.post("/v1/completions")
    async def complete(body: Completion) -> Response:
        request = Request(body.prompt, body.max_tokens, body.stream)
        if not body.stream:
            return JSONResponse(_completion(await text_of(request), "length"))
        events = _events(batcher.submit(request), tokenizer)
        return StreamingResponse(events, media_type="text/event-stream")

    return app


async def _events(request: Request, tokenizer: Tokenizer) -> AsyncIterator[str]:
    stream = DecodeStream(skip_special_tokens=True)
    while (token := await request.new_ids.get()) is not None:
        if text := stream.step(tokenizer, token):
            yield f"data: {dumps(_completion(text, None))}\n\n"
    yield f"data: {dumps(_completion('', 'length'))}\n\n"
    yield "data: [DONE]\n\n"


def _completion(text: str, finish_reason: str | None) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": finish_reason, "logprobs": None}
    return {"id": "cmpl-1", "object": "text_completion", "model": "peer", "choices": [choice]}


def serve(load: Callable[[Settings], Decode]) -> None:
    """Load an engine and serve it."""
    settings = Settings.from_arguments()
    app = application(settings, load(settings))
    uvicorn.run(app, port=settings.port, loop="uvloop", http="httptools", log_level="error")
