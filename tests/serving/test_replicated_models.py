"""Requests to replicas that die are sent again; clients notice nothing."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from regard.errors import ConfigError
from regard.serving.errors import ServingError, TimedOut, TooManyRequests, Unavailable
from regard.serving.ray_serve import Replication
from regard.serving.replicated_models import ATTEMPTS, ReplicaLost, ReplicatedModels
from regard.serving.settings import ServerSettings
from regard.serving.tasks.generate import Arguments

EVENTS: list[dict[str, Any]] = [{"text": "a"}, {"text": "b"}, {"result": {"choices": []}}]


class Replicas:
    """Replicas that die after some of the events, one after another; the next answers.

    Args:
        deaths: Number of events that each of the first replicas sends.
        last: Answers of the replica after them.
    """

    def __init__(self, deaths: Sequence[int], last: Sequence[dict[str, Any]] = ()) -> None:
        self._deaths = list(deaths)
        self._last = last or [{"event": event} for event in EVENTS]
        self.arguments: list[dict[str, Any]] = []
        self.open = 0

    async def stream(
        self, name: str, task: str, arguments: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        assert (name, task) == ("lm", "generate")
        self.arguments.append(arguments)
        self.open += 1
        try:
            if self._deaths:
                for event in EVENTS[: self._deaths.pop(0)]:
                    yield {"event": event}
                raise ReplicaLost
            for answer in self._last:
                yield answer
                await asyncio.sleep(0.01)
        finally:
            self.open -= 1


def _models(runs: Mapping[str, Path], replicas: Replicas, **settings: Any) -> ReplicatedModels:
    return ReplicatedModels(ServerSettings(runs=(runs["lm"],), **settings), replicas)


def _events(models: ReplicatedModels, **arguments: Any) -> list[dict[str, Any]]:
    async def collect() -> list[dict[str, Any]]:
        request = Arguments(prompts=["the"], **arguments)
        return [event async for event in models.stream("lm", "generate", request)]

    return asyncio.run(collect())


@pytest.mark.parametrize("deaths", [[], [0], [2], [1, 2]])
def test_stream_goes_on_with_another_replica(runs: Mapping[str, Path], deaths: list[int]) -> None:
    replicas = Replicas(deaths)
    assert _events(_models(runs, replicas)) == EVENTS
    assert len(replicas.arguments) == len(deaths) + 1
    assert replicas.open == 0


def test_every_replica_draws_with_the_same_seed(runs: Mapping[str, Path]) -> None:
    replicas = Replicas([0, 0])
    _events(_models(runs, replicas), temperature=1.0)
    seeds = {arguments["seed"] for arguments in replicas.arguments}
    assert len(seeds) == 1
    assert None not in seeds
    _events(_models(runs, replicas), seed=7)
    assert replicas.arguments[-1]["seed"] == 7


def test_request_that_kills_replicas_is_refused(runs: Mapping[str, Path]) -> None:
    replicas = Replicas([0] * 10)
    with pytest.raises(Unavailable, match="replicas have died"):
        _events(_models(runs, replicas))
    assert len(replicas.arguments) == ATTEMPTS


def test_errors_of_replicas_are_those_of_the_server(runs: Mapping[str, Path]) -> None:
    error = {"status": 422, "message": "no.", "param": "prompts", "retry_after": None, "code": None}
    with pytest.raises(ServingError) as raised:
        _events(_models(runs, Replicas([], [{"error": error}])))
    assert raised.value.to_message() == error


def test_requests_have_a_time_and_places(runs: Mapping[str, Path]) -> None:
    replicas = Replicas([], [{"event": {"text": "a"}}] * 1000)
    models = _models(runs, replicas, max_seconds=0.1)
    with pytest.raises(TimedOut):
        _events(models)
    assert replicas.open == 0

    async def two() -> None:
        models = _models(runs, Replicas([]), max_active=1, max_waiting=0)
        async with asyncio.timeout(5):
            first = models.stream("lm", "generate", Arguments(prompts=["the"]))
            await anext(first)
            with pytest.raises(TooManyRequests):
                await models.run("lm", "generate", Arguments(prompts=["the"]))
            assert [event async for event in first] == EVENTS[1:]

    asyncio.run(two())


def test_model_and_readiness_are_known_without_workers(runs: Mapping[str, Path]) -> None:
    models = _models(runs, Replicas([]))
    models.start()
    assert models.is_ready
    assert [info.name for info in models.list()] == ["lm"]
    assert models.workers()["lm"]["waiting"] == 0


def test_number_of_replicas() -> None:
    assert Replication.parse("2") == Replication(2, 2)
    assert Replication.parse("1:4", models=3) == Replication(1, 4, 3)
    for text in ("", "0", "4:1", "two", "1:2:3", "-1"):
        with pytest.raises(ConfigError, match="--replicas"):
            Replication.parse(text)
