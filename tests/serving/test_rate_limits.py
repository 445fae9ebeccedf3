"""Token buckets: how many requests a client may send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from regard.serving.metrics import Metrics
from regard.serving.middleware import protected
from regard.serving.middleware.rate_limits import TokenBuckets, client_of
from regard.serving.settings import ServerSettings


class Clock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_minutes_requests_may_come_at_once_and_then_evenly() -> None:
    clock = Clock()
    buckets = TokenBuckets(6, clock=clock)
    assert [buckets.take("a") for _ in range(6)] == [0] * 6
    assert buckets.take("a") == pytest.approx(10)
    assert buckets.take("b") == 0  # another client
    clock.now += 9
    assert buckets.take("a") == pytest.approx(1)
    clock.now += 1
    assert buckets.take("a") == 0
    assert buckets.take("a") == pytest.approx(10)
    clock.now += 1000
    assert [buckets.take("a") for _ in range(6)] == [0] * 6
    assert buckets.take("a") > 0


@given(st.lists(st.floats(0, 20), max_size=200), st.integers(1, 50))
def test_no_minute_has_more_than_two_minutes_requests(pauses: list[float], rate: int) -> None:
    """A full bucket and what is refilled; and whoever waits as long as he is told is served."""
    clock = Clock()
    buckets, taken = TokenBuckets(rate, clock=clock), []
    for pause in pauses:
        clock.now += pause
        if (wait := buckets.take("a")) == 0:
            taken.append(clock.now)
        else:
            clock.now += wait
            assert buckets.take("a") == 0
            taken.append(clock.now)
    for start in taken:
        assert sum(start <= moment < start + 60 for moment in taken) <= 2 * rate


def test_memory_is_bounded() -> None:
    buckets = TokenBuckets(1, max_buckets=100)
    for number in range(1000):
        assert buckets.take(str(number)) == 0
    assert len(buckets) == 100
    assert buckets.take("999") > 0  # the latest are known


def test_addresses_of_one_network_are_one_client() -> None:
    def client(host: str) -> str:
        return client_of({"client": (host, 1)})

    assert client("2001:db8:0:1::1") == client("2001:db8:0:1:ffff::2")
    assert client("2001:db8:0:1::1") != client("2001:db8:0:2::1")
    assert client("192.0.2.1") != client("192.0.2.2")
    assert client_of({"client": None}) == ""


def test_refusals_say_how_long_to_wait_in_their_protocol() -> None:
    paths = ("/", "/v1/models", "/translate")
    app = Starlette(routes=[Route(path, lambda _: JSONResponse(1)) for path in paths])
    limited = protected(app, ServerSettings((), rate_limit=2), Metrics())
    client = TestClient(limited, base_url="http://localhost")
    assert [client.get("/v1/models").status_code for _ in range(3)] == [200, 200, 429]
    answer = client.get("/v1/models")
    assert 0 < int(answer.headers["retry-after"]) <= 30
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    assert "more than 2 requests a minute" in client.get("/translate").json()["error"]
    assert client.get("/").status_code == 200  # the page itself
