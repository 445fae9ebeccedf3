"""The worker process of a model: real processes, spoken to through their socket."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from regard.data.tokenizers import bpe
from regard.run_folder import path_of
from regard.serving.messages import Decoder, Message, encode
from regard.serving.settings import ServerSettings
from regard.serving.worker_process import WorkerProcess

from ..cli.random_run import write_random_run
from .conftest import EN, wait_until, write_translator

LONG = " ".join(["Le chat dort sur la chaise, et le chien court dans le jardin."] * 400)


class Conversation:
    """Messages to a worker and from it."""

    def __init__(self, worker: WorkerProcess) -> None:
        self.worker, self.socket = worker, worker.connection
        self.socket.settimeout(30)
        self._decoder = Decoder()
        self._messages: list[Message] = []
        self.stats: dict[str, Any] = {}

    def ask(self, number: int, task: str, seconds: float = 30.0, **arguments: Any) -> None:
        self.send({"id": number, "task": task, "arguments": arguments, "seconds": seconds})

    def send(self, message: Message) -> None:
        self.socket.sendall(encode(message))

    def next(self) -> Message:
        """Return the next message that is no report."""
        while True:
            while not self._messages:
                data = self.socket.recv(65536)
                assert data, "the worker has ended"
                self._messages += self._decoder.feed(data)
            message = self._messages.pop(0)
            if "stats" not in message:
                return message
            self.stats = message["stats"]

    def answer(self, number: int) -> Message:
        """Return the answer to a request."""
        while (message := self.next()).get("id") != number or "event" in message:
            pass
        return message


@contextmanager
def conversation(run: Path, max_active: int = 4) -> Iterator[Conversation]:
    worker = WorkerProcess.start(run, ServerSettings((run,), max_active=max_active, max_tokens=50))
    with worker.connection:
        yield Conversation(worker)
    worker.end()


@pytest.fixture(scope="module")
def french() -> Iterator[Conversation]:
    """Return a loaded worker of the pretrained model."""
    with conversation(Path("fr-en")) as talk:
        assert "ready" in talk.next()
        yield talk


def test_requests_are_answered(french) -> None:
    french.ask(1, "translate", texts=["Le chat dort."], to="en", beam=1)
    french.ask(2, "detect", texts=[EN])
    answers = {message["id"]: message["result"] for message in (french.next(), french.next())}
    assert answers[1]["translations"][0]["text"] == "The cat is sleeping."
    assert answers[2]["languages"][0][0]["language"] == "en"


def test_streams_are_events_and_a_result(french) -> None:
    french.ask(3, "translate", texts=["Le chat dort."], to="en", beam=1, stream=True)
    messages = [french.next()]
    while "result" not in messages[-1]:
        messages.append(french.next())
    text = "".join(message["event"]["text"] for message in messages[:-1])
    assert len(messages) > 3
    assert messages[-1]["result"]["translations"][0]["text"] == text == "The cat is sleeping."


def test_refused_input_is_unprocessable(french) -> None:
    french.ask(4, "translate", texts=["Das ist gut."], to="de")
    error = french.answer(4)["error"]
    assert (error["status"], error["param"]) == (422, "to")
    assert "fr → en" in error["message"]


def test_a_bug_is_reported_with_its_traceback(french) -> None:
    french.ask(5, "no-such-task")
    answer = french.answer(5)
    assert answer["error"]["status"] == 500
    assert "KeyError" in answer["traceback"]


def test_a_canceled_request_ends_and_others_go_on(french) -> None:
    french.ask(6, "translate", texts=[LONG], to="en")
    french.ask(7, "translate", texts=["Le chat dort."], to="en")
    assert french.answer(7)["result"]["translations"]
    french.send({"cancel": 6})
    start = time.monotonic()

    def is_idle() -> bool:
        french.ask(8, "detect", texts=[""])
        french.answer(8)
        time.sleep(0.1)
        return french.stats.get("active") == 0

    wait_until(is_idle)
    assert time.monotonic() - start < 3  # the report comes every second


def test_a_request_ends_when_its_time_is_over(french) -> None:
    start = time.monotonic()
    french.ask(9, "translate", seconds=0.2, texts=[LONG], to="en")
    assert french.answer(9)["error"]["status"] == 504
    assert time.monotonic() - start < 3


def test_reports_have_memory_and_signals_are_left_to_the_server(french) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(french.worker.process.pid, number)
    french.ask(10, "detect", texts=[EN])
    assert "result" in french.answer(10)
    assert 10e6 < french.stats["memory"] < 1e9


def test_the_worker_ends_with_its_socket_even_while_it_computes() -> None:
    with conversation(Path("fr-en")) as talk:
        assert "ready" in talk.next()
        talk.ask(1, "translate", texts=[LONG], to="en")
        time.sleep(0.2)
        talk.socket.close()
        start = time.monotonic()
        assert talk.worker.process.wait(10) == 0
        assert time.monotonic() - start < 1


def test_a_damaged_model_is_reported_in_one_sentence(tmp_path: Path) -> None:
    run = write_translator(tmp_path / "run")
    weights = path_of(run, "model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-4] + b"abcd")
    with conversation(run) as talk:
        assert "does not match its checksum" in talk.next()["failed"]
        assert talk.worker.process.wait(10) == 1


def test_a_model_that_only_torch_computes_answers_one_request_at_a_time(tmp_path: Path) -> None:
    run = write_random_run(
        tmp_path / "run",
        "language-model",
        {"kind": "recurrent", "capability": "causal-lm", "dim": 16, "layers": 1, "max_length": 60},
        bpe.Spec(vocabulary=300).train([EN]),
        {"max_length": 60},
    )
    with conversation(run) as talk:
        assert "ready" in talk.next()
        for number in range(4):
            talk.ask(number, "generate", prompts=[EN[:10]], max_tokens=5)
        answers = [talk.next() for _ in range(4)]
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3]
    texts = {answer["result"]["choices"][0]["text"] for answer in answers}
    assert len(texts) == 1
