"""What every test may use: a seed for each test."""

import os

# Tokenisers fork threads of their own; tests that fork processes would warn about them.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
