"""Markdown for specs: every section, kind and key below a root, with types and defaults.

The walk follows the types of the keys; the kinds of a section are those that `regard.config.kinds`
finds. There is no list of sections or kinds here.
"""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard, get_args

import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from formatting import code, escape, table, type_name
from regard import config
from regard.config import Kind, Spec, plain

BOUNDS = {Gt: ("gt", ">"), Ge: ("ge", "≥"), Lt: ("lt", "<"), Le: ("le", "≤")}


class Schema:
    """The specs below a root, each with the path of the key at which it is first met."""

    def __init__(self, root: type[Spec], path: str = "") -> None:
        self.paths: dict[type[Spec], str] = {}
        self._collect(root, path)

    def sections(self) -> Iterator[str]:
        """Yield the page's blocks: a heading and tables for each spec."""
        for spec, path in self.paths.items():
            yield f"## {code(path) if path else 'Top level'} {{#{_anchor(path)}}}"
            if is_base(spec):
                yield from self._kinds(spec, path)
            else:
                yield from _example(spec)
                yield self._table(spec)

    def _collect(self, spec: type[Spec], path: str) -> None:
        if spec in self.paths:
            return
        self.paths[spec] = path
        for variant in kind_specs(spec).values() if is_base(spec) else [spec]:
            for key, field in keys(variant).items():
                for part in _specs_in(field.annotation):
                    self._collect(part, f"{path}.{key}".strip("."))

    def _kinds(self, base: type[Kind], path: str) -> Iterator[str]:
        variants = kind_specs(base)
        default = f" (default: {code(base.default)})" if base.default else ""
        links = (f"[{code(name)}](#{_anchor(path, name)})" for name in variants)
        yield f"Kinds{default}: {', '.join(links)}."
        for name, variant in variants.items():
            yield f"### {code(f'{path}: {name}')} {{#{_anchor(path, name)}}}"
            yield from _summary(variant)
            yield from _example(variant)
            yield self._table(variant)

    def _table(self, spec: type[Spec]) -> str:
        rows = [
            (code(key), self._type(field), _default(field), escape(field.description or ""))
            for key, field in keys(spec).items()
        ]
        return table(("key", "type", "default", ""), rows) if rows else "It has no keys."

    def _type(self, field: FieldInfo) -> str:
        limits = [
            f"{sign} {getattr(limit, name)}"
            for limit in field.metadata
            for name, sign in [BOUNDS.get(type(limit), ("", ""))]
            if name
        ]
        return " ".join((type_name(field.annotation, self._link), *limits))

    def _link(self, spec: type) -> str | None:
        path = self.paths.get(spec)
        if path is None:
            return None
        return f"{'kind of ' if is_base(spec) else ''}[{code(path)}](#{_anchor(path)})"


def is_base(spec: type) -> TypeGuard[type[Kind]]:
    """Return whether `spec` is the base of a section that comes in several kinds."""
    return Kind in spec.__bases__


def kind_specs(base: type[Kind]) -> Mapping[str, type[Kind]]:
    """Return the spec of every kind of `base` by name."""
    return {spec.kind(): spec for spec in config.kind_specs(base.package)}


def keys(spec: type[Spec]) -> dict[str, FieldInfo]:
    """Return the fields of `spec` by their names in a recipe."""
    return {field.alias or name: field for name, field in spec.model_fields.items()}


def _specs_in(annotation: Any) -> Iterator[type[Spec]]:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        yield annotation
    for argument in get_args(annotation):
        yield from _specs_in(argument)


def _summary(variant: type[Kind]) -> Iterator[str]:
    """Yield the first paragraph of the docstring of the kind's module."""
    if documentation := importlib.import_module(variant.__module__).__doc__:
        yield escape(documentation.split("\n\n")[0])


def _example(spec: type[Spec]) -> Iterator[str]:
    """Yield the docstring of a spec, which is an example in YAML."""
    if documentation := vars(spec).get("__doc__"):
        yield f"```yaml\n{documentation.strip()}\n```"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Kind):
        return code(value.kind())
    if value is None or isinstance(value, Spec):
        return ""
    shown = yaml.safe_dump(plain(value), default_flow_style=True, allow_unicode=True, width=1000)
    return code(shown.removesuffix("...\n").strip())


def _anchor(*names: str) -> str:
    return "-".join(names).replace(".", "-").replace("_", "-") or "top-level"
