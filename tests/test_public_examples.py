"""Every public function and method has a complete docstring whose example runs."""

import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import regard

from .public_runs import write_runs

FUNCTIONS = [name for name in regard.__all__ if inspect.isfunction(getattr(regard, name))]
CLASSES = [name for name in regard.__all__ if inspect.isclass(getattr(regard, name))]
# Classes with public methods of their own; a recipe and a model's spec are data.
WITH_METHODS = [
    name
    for name in CLASSES
    if getattr(regard, name).__module__.startswith(("regard.decoding", "regard.predictors"))
]
WITHOUT_EXAMPLE = {"Filling", "RegardError", "Score", "Summary", "Translation"}  # results, errors


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in WITH_METHODS:
        cls = getattr(regard, name)
        for method, function in inspect.getmembers(cls, inspect.isfunction):
            if not method.startswith("_"):
                yield f"{name}.{method}", function


CALLABLES = [*((name, getattr(regard, name)) for name in FUNCTIONS), *methods()]
# Examples of a class without constructor arguments of interest are those of its methods.
PREDICTORS = {
    "Classifier",
    "Embedder",
    "MaskFiller",
    "Prediction",
    "SpanFiller",
    "Summarizer",
    "TextGenerator",
    "Translator",
}
EXAMPLES = [
    *CALLABLES,
    *(
        (name, getattr(regard, name))
        for name in CLASSES
        if name not in PREDICTORS | WITHOUT_EXAMPLE
    ),
]

# The run of each loader's task.
LOADERS = {
    "load_classifier": "reviews",
    "load_embedder": "encoder",
    "load_language_model": "proverbs",
    "load_mask_filler": "masked",
    "load_span_filler": "spans",
    "load_summarizer": "summaries",
    "load_translator": "demo",
}


def test_every_loader_is_tested() -> None:
    assert sorted(LOADERS) == [name for name in regard.__all__ if name.startswith("load_")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("public")
    write_runs(folder)
    torch.set_num_threads(threads)
    return folder


@pytest.mark.parametrize(("name", "function"), CALLABLES, ids=[name for name, _ in CALLABLES])
def test_docstring_describes_arguments_result_and_errors(
    name: str, function: Callable[..., Any]
) -> None:
    text = inspect.getdoc(function) or ""
    parameters = [key for key in inspect.signature(function).parameters if key != "self"]
    for parameter in parameters:
        assert re.search(rf"^    {parameter}: ", text, re.MULTILINE), f"{name}: {parameter}"
    assert ("Args:" in text) == bool(parameters)
    assert "Example:" in text
    first = text.splitlines()[0]
    assert re.search(r"(Return|Yield)", first) or "Returns:" in text or "Yields:" in text
    source = inspect.getsource(inspect.unwrap(function))
    if "raise " in source:
        assert "Raises:" in text


@pytest.mark.parametrize("name", CLASSES)
def test_class_has_a_docstring(name: str) -> None:
    assert (inspect.getdoc(getattr(regard, name)) or "").strip()


@pytest.mark.parametrize("loader", LOADERS)
def test_loader_refuses_runs_of_other_tasks(loader: str, home: Path) -> None:
    for run in LOADERS.values():
        if run == LOADERS[loader]:
            getattr(regard, loader)(home / "runs" / run)
            continue
        message = f"{run}: holds an? .*, not an? .*; choose a run folder made by `regard .*"
        with pytest.raises(regard.RegardError, match=message):
            getattr(regard, loader)(home / "runs" / run)


@pytest.mark.parametrize(("name", "thing"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_example_runs(name: str, thing: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    text = inspect.getdoc(thing) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert example.examples, f"{name} has no example"
    output: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    result = runner.run(example, out=output.append)
    assert result.failed == 0, "".join(output)
