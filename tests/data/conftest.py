"""Shared fixtures: real text beside the project, if it is there."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder ../shared/data beside the project."""
    folder = Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        missing = f"{folder} is not there: real corpora cannot be read"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return folder
