"""Datasets of the Hugging Face hub, from a local server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.data.sources.reading import COLUMNS, pairs, parquet, read, source, table, write

from regard.errors import ConfigError, DataError, OutputError


class Hub(ThreadingHTTPServer):
    """Plays huggingface.co on this machine: what it has, and what it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.cut = 0  # bytes that are promised and never sent

    def offer(self, name: str, content: Any) -> None:
        self.pages[f"/api/datasets/{name}/parquet"] = json.dumps(content).encode()


class _Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        page = self.server.pages.get(self.path)
        if page is None:
            return self.send_error(401)
        self.send_response(200)
        self.send_header("Content-Length", str(len(page) + self.server.cut))
        self.end_headers()
        self.wfile.write(page)
        return None

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    with Hub() as server:
        monkeypatch.setenv("REGARD_HUB", server.address)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        files = []
        for number in range(11):
            path = Path(parquet(tmp_path / "server" / f"{number}", table((f"un {number}", "one"))))
            files.append(f"{server.address}/{number}.parquet")
            server.pages[f"/{number}.parquet"] = path.read_bytes()
        server.offer("owner/set", {"default": {"train": files, "test": files[:1]}, "more": {}})
        yield server
        server.shutdown()
        thread.join()


def test_hub_downloads_once_and_reads_in_order(hub: Hub, tmp_path: Path) -> None:
    given = {"kind": "hub", "name": "owner/set", **COLUMNS}
    expected = [(f"un {number}", "one") for number in range(11)]
    assert pairs(**given) == expected
    assert len(hub.asked) == 12
    assert pairs(**given) == expected
    assert len(hub.asked) == 12
    files = source(**given).files()
    assert {file.parent for file in files} == {tmp_path / "cache/datasets/owner--set/default/train"}
    assert pairs(**given, split="test") == expected[:1]


def test_hub_continues_an_interrupted_download(hub: Hub, tmp_path: Path) -> None:
    given = {"kind": "hub", "name": "owner/set", **COLUMNS}
    page = hub.pages.pop("/7.parquet")
    with pytest.raises(DataError, match=r"/7\.parquet: the hub returns 401"):
        read(**given)
    hub.pages["/7.parquet"] = page
    hub.asked.clear()
    assert len(pairs(**given)) == 11
    assert hub.asked == [f"/{number}.parquet" for number in range(7, 11)]
    assert not list(tmp_path.rglob("*.partial"))


def test_hub_stores_no_truncated_file(hub: Hub, tmp_path: Path) -> None:
    given = {"kind": "hub", "name": "owner/set", "split": "test", **COLUMNS}
    assert source(**given).files()
    (tmp_path / "cache/datasets/owner--set/default/test/00000.parquet").unlink()
    hub.cut = 5
    with pytest.raises(DataError, match=r"/0\.parquet: truncated, 5 bytes are missing; try again"):
        read(**given)
    assert not list((tmp_path / "cache").rglob("*.p*"))


def test_hub_without_network_suggests_parquet(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"kind": "hub", "name": "owner/set", **COLUMNS}
    kept = pairs(**given, split="test")
    monkeypatch.setenv("REGARD_HUB", "http://127.0.0.1:9")
    with pytest.raises(DataError, match=r"cannot be reached .*; .* with kind: parquet instead"):
        read(**given)
    assert pairs(**given, split="test") == kept
    assert hub.asked


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"split": "dev"}, "there is no split 'dev' in this dataset; .* one of: train, test"),
        ({"subset": "fr"}, "there is no subset 'fr' in this dataset; .* one of: default, more"),
        ({"name": "owner/other"}, "the hub returns 401 .*; check the name"),
        ({"name": "owner/odd"}, "the response is not a list of Parquet files"),
        ({"name": "owner/bad"}, "file:///etc/passwd: the hub lists a file on another server"),
    ],
)
def test_hub_reports_missing_datasets_and_splits(
    hub: Hub, given: dict[str, str], complaint: str
) -> None:
    hub.offer("owner/odd", ["a.parquet"])
    hub.offer("owner/bad", {"default": {"train": ["file:///etc/passwd"]}})
    with pytest.raises(DataError, match=complaint):
        read(**({"kind": "hub", "name": "owner/set", **COLUMNS} | given))


def test_hub_reports_an_unwritable_cache(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_CACHE", write(tmp_path / "a file", "in the way"))
    with pytest.raises(OutputError, match=r"cannot be written .* set REGARD_CACHE to another"):
        read(kind="hub", name="owner/set", **COLUMNS)
    assert hub.asked


@pytest.mark.parametrize("key", ["name", "subset", "split"])
@pytest.mark.parametrize("outside", ["..", "../../etc", "a/../b", "a/b/c", "", "a b"])
def test_hub_names_cannot_leave_the_cache(key: str, outside: str) -> None:
    with pytest.raises(ConfigError, match=key):
        source(**({"kind": "hub", "name": "owner/set", **COLUMNS} | {key: outside}))
