"""Settings of all tests: a seed, real data by name, and the order in which workers take files."""

import os
from pathlib import Path

# Tokenizers fork threads of their own; tests that fork processes would warn about them.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
os.environ["REGARD_DATA"] = str(SHARED_DATA)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order of the files below: by default xdist sorts them by their number of tests."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of the demo first and other tests that need the demo last.

    Training the demo takes minutes: the other worker would wait for it.
    """
    users = {item.path for item in items if "demo" in getattr(item, "fixturenames", ())}

    def rank(item: pytest.Item) -> int:
        if item.path.name == "test_demo.py":
            return 0
        return 2 if item.path in users else 1

    items.sort(key=rank)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder ../shared/data beside the project, where data sets are found by name."""
    if not SHARED_DATA.is_dir():
        missing = f"{SHARED_DATA} is not there: real corpora cannot be read"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return SHARED_DATA
