"""Greedy decoding by ONNX Runtime: answers requests of peer.py."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from peer import Ids, answer_requests

Arrays = dict[str, Any]


def session(path: Path) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def outputs_of(model: Any, inputs: Arrays) -> Arrays:
    names = [output.name for output in model.get_outputs()]
    return dict(zip(names, model.run(names, inputs), strict=True))


def generate(next_logits: Callable[[Sequence[int]], Any], end: int, tokens: int) -> Ids:
    generated: Ids = []
    while len(generated) < tokens:
        token = int(next_logits(generated).argmax())
        if token == end:
            break
        generated.append(token)
    return generated


def continued(home: Path, row: Ids, settings: Any, tokens: int) -> Ids:
    """A language model: all tokens so far in each call."""
    model = session(home / "model.onnx")

    def next_logits(generated: Sequence[int]) -> Any:
        return outputs_of(model, {"input_ids": np.array([[*row, *generated]])})["logits"][0, -1]

    return generate(next_logits, settings["eos_token_id"], tokens)


def translated(home: Path, row: Ids, settings: Any, tokens: int) -> Ids:
    """An encoder-decoder: all tokens so far in each call, and then with the KV cache."""
    encoder, decoder, with_past = (
        session(home / f"{name}.onnx")
        for name in ("encoder_model", "decoder_model", "decoder_with_past_model")
    )
    ids, start = np.array([row]), settings["decoder_start_token_id"]
    mask = np.ones_like(ids)
    states = outputs_of(encoder, {"input_ids": ids, "attention_mask": mask})["last_hidden_state"]
    source = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
    caches: Arrays = {}

    def anew(generated: Sequence[int]) -> Any:
        inputs = {"input_ids": np.array([[start, *generated]]), **source}
        return outputs_of(decoder, inputs)["logits"][0, -1]

    def cached(generated: Sequence[int]) -> Any:
        if generated:
            inputs = {"input_ids": np.array([generated[-1:]]), "encoder_attention_mask": mask}
            outputs = outputs_of(with_past, inputs | caches)
        else:
            outputs = outputs_of(decoder, {"input_ids": np.array([[start]]), **source})
        for name, array in outputs.items():
            if name != "logits":
                caches[name.replace("present", "past_key_values")] = array
        return outputs["logits"][0, -1]

    whole, stepwise = (
        generate(logits, settings["eos_token_id"], tokens) for logits in (anew, cached)
    )
    assert whole == stepwise, (whole, stepwise)
    return stepwise


def decode(folder: str, rows: list[Ids], tokens: int, beam: int) -> list[Ids]:
    assert beam == 1
    home = Path(folder)
    settings = json.loads((home / "generation_config.json").read_text())
    run = translated if (home / "encoder_model.onnx").exists() else continued
    return [run(home, row, settings, tokens) for row in rows]


answer_requests(decode)
