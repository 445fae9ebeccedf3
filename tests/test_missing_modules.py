"""Modules that are not installed: the sentence, and what it says to install."""

import importlib.metadata

import pytest

import regard
from regard.errors import MissingModuleError
from regard.missing_modules import install_command, required_by

INSTALLED = {
    "regard": ["torch>=2.13", "rouge-score>=0.1.2", 'onnx>=1.17; extra == "onnx"'],
    "regard-runtime": ["numpy>=1.26", 'torch>=2.13; extra == "full"'],
}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    def install(*distributions: str) -> None:
        def requires(name: str) -> list[str]:
            if name not in distributions:
                raise importlib.metadata.PackageNotFoundError(name)
            return INSTALLED[name]

        monkeypatch.setattr(importlib.metadata, "requires", requires)

    return install


@pytest.mark.parametrize(
    ("distributions", "module", "command"),
    [
        (["regard"], "torch", "pip install regard"),
        (["regard"], "rouge_score", "pip install regard"),
        (["regard"], "onnx", "pip install 'regard[onnx]'"),
        (["regard"], "antigravity", None),
        (["regard-runtime"], "torch", "pip install 'regard-runtime[full]'"),
        (["regard-runtime"], "numpy", "pip install regard-runtime"),
        (["regard", "regard-runtime"], "torch", "pip install regard"),
        ([], "torch", "pip install torch"),
        ([], "regard", None),
    ],
)
def test_command_is_that_of_the_installed_distribution(
    installed, distributions: list[str], module: str, command: str | None
) -> None:
    installed(*distributions)
    assert install_command(module) == command


def test_error_names_the_module_and_its_user(installed) -> None:
    installed("regard")
    with pytest.raises(MissingModuleError) as info, required_by("it"):
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")
    assert str(info.value) == "it needs torch, which is not installed: pip install regard."
    assert isinstance(info.value, regard.RegardError)
    assert info.value.name == "torch"


@pytest.mark.parametrize("name", ["antigravity", "regard.nothing", None])
def test_other_modules_are_a_bug(installed, name: str | None) -> None:
    installed("regard")
    with pytest.raises(ModuleNotFoundError) as info, required_by("it"):
        raise ModuleNotFoundError("bug", name=name)
    assert type(info.value) is ModuleNotFoundError
