"""Names of heads: `encoder.1.3` is head 3 of layer 1, counted from 1.

There are three kinds of attention: encoder (bidirectional), decoder (causal) and cross. Heads of
one kind attend to the same tokens and can be compared.
"""

from dataclasses import dataclass
from typing import cast

from torch import nn

from regard.attention.multi_head import MultiHead
from regard.errors import ConfigError
from regard.layers.decoder import DecoderBlock

CROSS, DECODER, ENCODER = "cross", "decoder", "encoder"


@dataclass(frozen=True)
class Head:
    """One head of an attention."""

    module: str  # the name of the attention in the model
    kind: str
    layer: int  # from 0
    number: int  # from 0

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer + 1}.{self.number + 1}"


def attention(model: nn.Module, name: str) -> MultiHead:
    """Return the attention of that name."""
    return cast("MultiHead", model.get_submodule(name))


def attentions(model: nn.Module) -> dict[str, list[Head]]:
    """Return the heads of each attention, by its name."""
    groups = {}
    for name, module in model.named_modules():
        if isinstance(module, MultiHead):
            *_, layer, last = name.split(".")
            block = model.get_submodule(name.rpartition(".")[0])
            own = DECODER if isinstance(block, DecoderBlock) else ENCODER
            kind = CROSS if last == "cross" else own
            groups[name] = [Head(name, kind, int(layer), number) for number in range(module.heads)]
    return groups


def heads_of(model: nn.Module) -> list[Head]:
    """Return all heads of a model."""
    return [head for heads in attentions(model).values() for head in heads]


def by_kind(model: nn.Module) -> dict[str, list[Head]]:
    """Return the heads of each kind, layer by layer."""
    groups: dict[str, list[Head]] = {}
    for head in heads_of(model):
        groups.setdefault(head.kind, []).append(head)
    return groups


def units(model: nn.Module) -> list[tuple[Head, ...]]:
    """Return groups of heads to remove together: those that share one of several key heads."""
    groups = []
    for name, heads in attentions(model).items():
        shared = attention(model, name).kv_heads
        size = 1 if shared == 1 else len(heads) // shared
        groups += [tuple(heads[at : at + size]) for at in range(0, len(heads), size)]
    return groups


def find_head(model: nn.Module, name: str) -> Head:
    """Return the head of that name; raises ConfigError where there is none."""
    known = {str(head): head for head in heads_of(model)}
    if name in known:
        return known[name]
    kind, _, rest = name.partition(".")
    own = by_kind(model).get(kind)
    if own is None or rest.count(".") != 1:
        kinds = ", ".join(by_kind(model))
        example = next(iter(known))
        raise ConfigError(
            f"'{name}' is not a head: write kind.layer.head, as {example}; kinds here: {kinds}."
        )
    layers = sorted({head.layer + 1 for head in own})
    if rest.split(".")[0] not in map(str, layers):
        raise ConfigError(f"there is no head {name}: {kind} has layers 1 to {layers[-1]}.")
    count = sum(str(head.layer + 1) == rest.split(".")[0] for head in own)
    layer = f"layer {rest.split('.')[0]} of {kind}"
    raise ConfigError(f"there is no head {name}: {layer} has heads 1 to {count}.")
