"""Greedy decoding by ONNX Runtime: answers requests of peer.py."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from peer import Ids, answer_requests


def session(path: Path) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def decode(folder: str, rows: list[Ids], tokens: int, beam: int) -> list[Ids]:
    assert beam == 1
    home = Path(folder)
    settings = json.loads((home / "generation_config.json").read_text())
    pairs = (home / "encoder_model.onnx").exists()
    encoder = session(home / "encoder_model.onnx") if pairs else None
    decoder = session(home / ("decoder_model.onnx" if pairs else "model.onnx"))
    outputs = []
    for row in rows:
        ids = np.array([row], dtype=np.int64)
        token_mask = np.ones_like(ids)
        prompt = [settings["decoder_start_token_id"]] if pairs else list(row)
        encoder_inputs = {}
        if encoder is not None:
            (states,) = encoder.run(None, {"input_ids": ids, "attention_mask": token_mask})
            encoder_inputs = {"encoder_hidden_states": states, "encoder_attention_mask": token_mask}
        generated: Ids = []
        while len(generated) < tokens:
            input_ids = np.array([prompt + generated], dtype=np.int64)
            (logits,) = decoder.run(None, {"input_ids": input_ids, **encoder_inputs})
            token = int(logits[0, -1].argmax())
            if token == settings["eos_token_id"]:
                break
            generated.append(token)
        outputs.append(generated)
    return outputs


answer_requests(decode)
