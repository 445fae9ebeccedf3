"""Parse YAML: duplicate keys, endless aliases and deep nesting are errors of one line."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from regard.errors import shortened

MAX_VALUES, MAX_DEPTH = 1 << 16, 50
_BOOLEAN = "tag:yaml.org,2002:bool"


def parse_yaml(text: str) -> Any:
    """Parse YAML; raise ValueError, with a message of one line, for any damage."""
    try:
        loader = _StrictLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return loader.construct_document(node)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except yaml.YAMLError as error:
        raise ValueError(shortened(str(error), 300)) from None
    except ValueError as error:  # of a date or number
        raise ValueError(f"a value cannot be read ({shortened(str(error))})") from None
    except TypeError:
        raise ValueError("a key is a list or mapping; keys are words") from None
    except (AttributeError, LookupError, OverflowError):  # of a tag such as !!timestamp
        raise ValueError("a value does not fit its tag") from None


def _check_size(root: yaml.Node) -> None:
    """Refuse aliases (*name) that stand for more values than any recipe has, or for themselves."""
    sizes: dict[int, int] = {}  # values below each node, 0 while they are counted

    def size(node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) not in sizes:
            sizes[id(node)] = 0
            children = (
                part
                for pair in node.value
                for part in (pair if isinstance(pair, tuple) else (pair,))
            )
            sizes[id(node)] = 1 + sum(map(size, children))
        if not 0 < sizes[id(node)] <= MAX_VALUES:
            raise ValueError(f"its aliases stand for more than {MAX_VALUES:,} values")
        return sizes[id(node)]

    size(root)


class _StrictLoader(yaml.SafeLoader):
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RecursionError
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key '{key}' is given twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


# As in YAML 1.2, only true and false are booleans: a key `on` and a label `no` are strings.
_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOLEAN]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_StrictLoader.add_implicit_resolver(
    _BOOLEAN, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
