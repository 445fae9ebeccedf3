"""The vectors behind an attention's weights, so that each step of the equation can be followed.

x → q, k, v → q·k → ÷ √K → softmax → Σ α v → heads joined → W_O
"""

from typing import Any

import numpy as np
import torch

from regard.attention.multi_head import MultiHead
from regard.insight.forward_passes import Part, Reading
from regard.insight.picture import Steps
from regard.insight.seen import Seen, as_numpy


@torch.inference_mode()
def steps(reading: Reading, seen: Seen) -> tuple[Steps, ...]:
    """Of every part of a reading that takes these steps; `seen` has all the usual points."""
    return tuple(_steps(reading, part, seen) for part in reading.parts if _takes(reading, part))


def _takes(reading: Reading, part: Part) -> bool:
    """Others have other scores, or vectors that are not projected."""
    blocks = reading.model.get_submodule(part.blocks).children()
    return all(isinstance(getattr(block, part.attention, None), MultiHead) for block in blocks)


def _steps(reading: Reading, part: Part, seen: Seen) -> Steps:
    entered = np.stack([as_numpy(x) for x in _entered(reading, part, seen)])
    stacks = {
        point: seen.stack(part.blocks, part.attention, point)
        for point in ("queries", "keys", "values", "found", "output")
    }
    remembered = entered
    if part.attention == "cross":
        encoder: Any = reading.model.get_submodule("encoder")
        last = seen.last(f"encoder.blocks.{len(encoder.blocks) - 1}", "residual")[0]
        remembered = np.stack([as_numpy(encoder.norm(last))] * len(entered))
    return Steps(part.name, entered, remembered, **stacks)


def _entered(reading: Reading, part: Part, seen: Seen) -> list[torch.Tensor]:
    """What each layer's attention is given (T, D): the stream, normed where norms come first."""
    stream = seen.last(part.blocks.removesuffix("blocks") + "embedding", "residual")[0]
    entered = []
    for number, block in enumerate(reading.model.get_submodule(part.blocks).children()):
        own: Any = block
        name = f"{part.blocks}.{number}"
        if part.attention == "cross":
            said = seen.last(f"{name}.attention", "output")[0]
            entered.append(own.around_cross.enter(own.around_attention.leave(stream, said)))
        else:
            entered.append(own.around_attention.enter(stream))
        stream = seen.last(name, "residual")[0]
    return entered
