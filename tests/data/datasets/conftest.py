"""A server of data sets, an empty cache, and no other folder to find them in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.data.datasets.server import FileServer, file_server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setattr("regard.data.datasets.download.PAUSE", 0.0)
    with file_server() as running:
        yield running
