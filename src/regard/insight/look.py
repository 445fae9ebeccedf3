"""What a translator looked at while it translated one sentence, as a picture."""

import numpy as np
import numpy.typing as npt
import torch

from regard.data.tokenizer import END, START
from regard.decoding.translator import Translator
from regard.insight.picture import Panel, Picture
from regard.insight.watch import Seen, watch
from regard.models.kind import parameter_count

Weights = npt.NDArray[np.float32]


def look(translator: Translator, text: str, to: str | None = None, title: str = "") -> Picture:
    """Translate, then run source and translation through the model once more, watched."""
    to = to or translator.other_language(text)
    source = translator.source_ids(text, to, "the sentence")
    target = translator.say([source])[0]
    seen = watched(translator, source, target)
    words = tuple(translator.tokenizer.pieces(source))
    said = tuple(translator.tokenizer.pieces(target))
    queries, predicts = (START, *said), (*said, END)
    encoder = seen.stack("encoder.blocks", "attention")
    decoder = seen.stack("decoder.blocks", "attention")
    cross = seen.stack("decoder.blocks", "cross")
    return Picture(
        title=title,
        caption=_caption(translator, encoder, decoder),
        source=text,
        output=translator.tokenizer.decode(target),
        panels=(
            Panel("encoder", "Encoder self-attention", words, words, encoder),
            Panel(
                "decoder",
                "Decoder self-attention",
                queries,
                queries,
                decoder,
                predicts,
                causal=True,
            ),
            Panel("cross", "Cross-attention", queries, words, cross, predicts),
        ),
    )


def watched(translator: Translator, source: list[int], target: list[int]) -> Seen:
    """What the model looks at while it reads a source and says a target, both as ids."""
    device = translator.device
    with torch.inference_mode(), watch(translator.model) as seen:
        translator.model(
            torch.tensor([source], device=device),
            torch.ones(1, len(source), dtype=torch.bool, device=device),
            torch.tensor([[translator.tokenizer.start, *target]], device=device),
        )
    return seen


def _caption(
    translator: Translator, encoder: npt.NDArray[np.float32], decoder: npt.NDArray[np.float32]
) -> str:
    size = parameter_count(translator.model) / 1e6
    return (
        f"encoder-decoder, {len(encoder)} + {len(decoder)} layers, {encoder.shape[1]} heads, "
        f"{size:.1f} M parameters"
    )
