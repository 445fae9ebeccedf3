"""Recipes as typed, frozen specs: read and write YAML, apply overrides, name the key in errors.

A recipe is a tree of specs. A component that comes in several kinds names its kind:

    position: {kind: rotary, base: 10000}        # or, with all defaults, just  position: rotary

The kind's name is its file's name: `rotary` is the class `Spec` in `positions/rotary.py`. There is
no registry and no list of kinds to edit; a new kind is a new file.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from regard.errors import ConfigError, shortened
from regard.nearest import did_you_mean, nearest_path

MAX_RECIPE_BYTES = 1 << 18


class Spec(BaseModel):
    """A typed, frozen section of a recipe. Unknown keys are refused, never ignored.

    `renamed_keys` maps keys of earlier versions to their new names, for the error message.
    """

    renamed_keys: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, value: Any) -> Any:
        known = _keys(cls)
        if not isinstance(value, Mapping):
            return value
        for key in value:
            if key not in known:
                problem = _unknown_key(key, known, cls)
                raise PydanticCustomError("unknown_key", "{problem}", {"problem": problem})
        for key, name in known.items():
            if cls.model_fields[name].is_required() and key not in value and name not in value:
                problem = _missing_key(key, name, cls)
                raise PydanticCustomError("missing", "{problem}", {"problem": problem})
        return value

    def as_written(self) -> "Spec":
        """Return the spec that a recipe writes for this one: itself, unless it stands for it."""
        return self


class Kind(Spec):
    """A spec that comes in several kinds.

    A package declares its base class (`class PositionSpec(Kind, package="regard.positions")`);
    each kind is a module of the package whose `Spec` derives from that base. Validating the base
    finds the kind by name; a recipe that names none gets the package's default. `renamed_kinds` of
    the base class maps kinds of earlier versions to their new names, for the error message.
    """

    package: ClassVar[str] = ""
    default: ClassVar[str] = ""
    renamed_kinds: ClassVar[Mapping[str, str]] = {}
    _is_base: ClassVar[bool] = False

    def __init_subclass__(cls, *, package: str = "", default: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._is_base = bool(package)
        cls.package, cls.default = package or cls.package, default or cls.default

    @classmethod
    def kind(cls) -> str:
        """Return the name of the kind in a recipe: the module's name with hyphens."""
        return _kind_name(cls.__module__)

    @model_validator(mode="wrap")
    @classmethod
    def _find_kind(cls, value: Any, handler: Any) -> Any:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            value = {"kind": value}
        if not cls._is_base:
            return handler(_without_kind(value))
        name = value.get("kind", cls.default) if isinstance(value, Mapping) else None
        if not isinstance(name, str) or not name:
            known = ", ".join(kinds(cls.package))
            raise PydanticCustomError("no_kind", "needs a kind, one of: {known}", {"known": known})
        return _kind_named(name, cls).model_validate(_without_kind(value))


S = TypeVar("S", bound=Spec)


def kinds(package: str) -> list[str]:
    """List the names of the kinds in a package: its modules that have a `Spec`."""
    return [spec.kind() for spec in kind_specs(package)]


def kind_specs(package: str) -> list[type[Kind]]:
    """List the `Spec` classes of the kinds in a package, sorted by name."""
    return sorted(_specs(_modules(package), package), key=lambda spec: spec.kind())


def kind_field(base: type[Kind], description: str) -> Any:
    """Declare a field of a spec that holds one of the kinds of `base` (default: its default)."""
    return Field(default_factory=lambda: base.model_validate({}), description=description)


def plain(value: Any, plain_path: Callable[[Path], Any] = str, *, as_written: bool = True) -> Any:
    """Convert a spec to plain dicts, lists and scalars, as YAML and JSON need them.

    `plain_path` converts paths. With `as_written`, a spec is converted in the form that a recipe
    has: a data set by its name, not by the files that it stands for.
    """

    def convert(value: Any) -> Any:
        if isinstance(value, Spec):
            spec = value.as_written() if as_written else value
            fields = {key: convert(getattr(spec, name)) for key, name in _keys(type(spec)).items()}
            return {"kind": spec.kind(), **fields} if isinstance(spec, Kind) else fields
        if isinstance(value, Mapping):
            return {key: convert(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [convert(item) for item in value]
        return plain_path(value) if isinstance(value, Path) else value

    return convert(value)


def validate(spec: type[S], value: Any, source: str) -> S:
    """Validate a value as a `spec`; an error is one sentence with `source` and the wrong key."""
    try:
        return spec.model_validate(value)
    except ValidationError as error:
        raise ConfigError(f"{source}: {explain(error)}") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the mapping in a YAML file; a duplicate key is an error."""
    from regard.strict_yaml import parse_yaml

    try:
        if (size := path.stat().st_size) > MAX_RECIPE_BYTES:
            raise ConfigError(
                f"{path}: has {size:,} bytes and a recipe at most {MAX_RECIPE_BYTES:,}; is it the "
                f"right file?"
            )
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such recipe{nearest_path(path) or '.'}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the recipe cannot be read ({error}).") from None
    try:
        content = parse_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a recipe is a mapping of keys to values; this file is not.")
    return content


def write_yaml(spec: Spec) -> str:
    """Format a spec as YAML."""
    import yaml

    return yaml.safe_dump(plain(spec), sort_keys=False, allow_unicode=True)


def override(recipe: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Apply `key.path=value` assignments to a recipe; values are parsed as YAML."""
    from regard.strict_yaml import parse_yaml

    changed = cast("dict[str, Any]", plain(recipe))
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not all(path.split(".")):
            raise ConfigError(f"'{assignment}' is not an override; write key.path=value.")
        try:
            value = parse_yaml(text)
        except ValueError:
            raise ConfigError(f"{path}: '{shortened(text)}' is not a YAML value.") from None
        _assign(changed, path, value)
    return changed


def _assign(tree: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for key in parents:
        child = tree.get(key, {})
        # `position: rotary` is short for `position: {kind: rotary}`: expand it to add its settings.
        tree[key] = {"kind": child} if isinstance(child, str) else child
        if not isinstance(tree[key], dict):
            raise ConfigError(f"{path}: '{key}' is a single value and has no keys below it.")
        tree = tree[key]
    tree[last] = value


def _modules(package: str) -> list[str]:
    """List the full names of the modules in a package and in its sub-packages."""
    path = importlib.import_module(package).__path__
    return [info.name for info in pkgutil.walk_packages(path, f"{package}.")]


def _specs(modules: Iterable[str], package: str) -> Iterator[type[Kind]]:
    for module in modules:
        spec = getattr(importlib.import_module(module), "Spec", None)
        if _is_kind(spec, package):
            yield cast("type[Kind]", spec)


def _kind_name(module: str) -> str:
    return module.rpartition(".")[2].replace("_", "-")


def _is_kind(candidate: Any, package: str) -> bool:
    return (
        isinstance(candidate, type) and issubclass(candidate, Kind) and candidate.package == package
    )


def _kind_named(name: str, base: type[Kind]) -> type[Kind]:
    package = base.package
    named = [path for path in _modules(package) if _kind_name(path) == name.replace("_", "-")]
    for spec in _specs(named, package):
        return spec
    if name in base.renamed_kinds:
        problem = f"the kind '{name}' was renamed to '{base.renamed_kinds[name]}'"
    else:
        known = kinds(package)
        problem = f"there is no kind '{name}'{did_you_mean(name, known)}; kinds: {', '.join(known)}"
    raise PydanticCustomError("unknown_kind", "{problem}", {"problem": problem})


def _without_kind(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if key != "kind"}
    return value


def _keys(spec: type[Spec]) -> dict[str, str]:
    """Map recipe keys to field names: they differ where a key is a Python keyword."""
    return {field.alias or name: name for name, field in spec.model_fields.items()}


def _unknown_key(key: Any, fields: Mapping[str, Any], spec: type[Spec]) -> str:
    if key in spec.renamed_keys:
        return f"the key '{key}' was renamed to '{spec.renamed_keys[key]}'"
    hint = did_you_mean(str(key), list(fields)) or f"; known keys: {', '.join(fields) or 'none'}"
    return f"unknown key '{key}'{hint}"


def _missing_key(key: str, name: str, spec: type[Spec]) -> str:
    """Return a sentence on a required key; the first line of a spec's docstring is an example."""
    example = (spec.__doc__ or "").partition("\n")[0]
    shown = f"; example: {example}" if re.match(r"(\w+: )?\{", example) else ""
    return f"the key '{key}' is missing ({spec.model_fields[name].description}){shown}"


def explain(error: ValidationError) -> str:
    """Return the first problem of a validation error in one line: key, problem and value."""
    first, *rest = error.errors(include_url=False)
    path = ".".join(shortened(str(part)) for part in first["loc"])
    message = shortened(first["msg"].removeprefix("Value error, "), 300)
    message = message[:1].lower() + message[1:]
    value = first["input"]
    shown = f" (given: {_shown(value)})" if isinstance(value, (str, int, float, bool)) else ""
    more = f" ({len(rest)} more after this one)" if rest else ""
    return f"{path + ': ' if path else ''}{message}{shown}{more}"


def _shown(value: str | float) -> str:
    if isinstance(value, str):
        return repr(shortened(value))
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length():,} bits"  # Python refuses to write the longest
    return repr(value)


__all__ = [
    "Kind",
    "Spec",
    "explain",
    "kind_field",
    "kind_specs",
    "kinds",
    "override",
    "plain",
    "read_yaml",
    "shortened",
    "validate",
    "write_yaml",
]
