"""The public surface is small, sorted and pinned."""

import subprocess
import sys

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
