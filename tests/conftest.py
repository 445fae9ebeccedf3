"""What every test may use: a seed for each test; and which tests are run together."""

import os

# Tokenisers fork threads of their own; tests that fork processes would warn about them.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs a file, and one all that use the demo: what they share is made once."""
    for item in items:
        uses_demo = "demo" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("demo" if uses_demo else str(item.path)))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
