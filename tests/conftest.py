"""Settings of all tests: a seed for every test, and the order in which workers take the files."""

import os

# Tokenizers fork threads of their own; tests that fork processes would warn about them.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch


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
