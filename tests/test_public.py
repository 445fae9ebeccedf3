"""The public surface is small, sorted and pinned."""

import os
import subprocess
import sys

import pytest

import regard


def test_the_public_names() -> None:
    assert regard.__all__ == [
        "ModelSpec",
        "Recipe",
        "RegardError",
        "load",
        "read_recipe",
        "train",
        "watch",
    ]
    for name in regard.__all__:
        assert getattr(regard, name) is not None
    assert not hasattr(regard, "nothing")


def test_importing_regard_and_asking_for_help_does_not_import_torch() -> None:
    code = (
        "import sys, regard, regard.cli;"
        "assert not {'torch', 'numpy', 'tokenizers'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_waiting_threads_give_way_unless_told_otherwise(given: dict[str, str], found: str) -> None:
    ours = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    code = "import os, regard; print(os.environ.get('GOMP_SPINCOUNT'))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=kept | given, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found
