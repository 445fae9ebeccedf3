"""The Python reference: the public names of `regard` and the classes that they return."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_overloads

import regard
from regard import predictors

INTRODUCTION = """# Python API

The public names of `regard`. All are imported when first used, so that `import regard` is instant.

All of them have exact types. This example is checked by `mypy --strict`:

```python
{example}```
"""
EXAMPLE = Path(__file__).with_name("typed_example.py")


def page() -> str:
    """Return the page as Markdown, with a directive of mkdocstrings for every name."""
    names = [f"regard.{name}" for name in regard.__all__]
    public = [getattr(regard, name) for name in regard.__all__]
    returned = sorted(_returned(public), key=lambda cls: cls.__name__)
    names += [f"{cls.__module__}.{cls.__qualname__}" for cls in returned]
    introduction = INTRODUCTION.format(example=EXAMPLE.read_text(encoding="utf-8"))
    return "\n\n".join((introduction, *(f"::: {name}" for name in names))) + "\n"


def _returned(public: list[Any]) -> set[type]:
    """Return the classes of regard that public functions return and that are not public names."""
    functions = [function for function in public if inspect.isfunction(function)]
    overloads: list[Any] = [overload for name in functions for overload in get_overloads(name)]
    names = _predictor_names()  # some modules import them for type checkers only
    signatures = (
        inspect.signature(each, eval_str=True, locals=names) for each in (*functions, *overloads)
    )
    annotations = (signature.return_annotation for signature in signatures)
    return {cls for annotation in annotations for cls in _classes(annotation)} - set(public)


def _predictor_names() -> dict[str, Any]:
    """Return the classes that loading functions return, by name."""
    modules = [module.name for module in pkgutil.iter_modules(predictors.__path__)]
    imported = [import_module(f"{predictors.__name__}.{name}") for name in modules]
    return {name: value for module in imported for name, value in vars(module).items()}


def _classes(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and annotation.__module__.startswith("regard."):
        yield annotation
    for argument in get_args(annotation):
        yield from _classes(argument)
