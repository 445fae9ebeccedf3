"""Greedy decoding by ONNX Runtime: python in_onnxruntime.py FOLDER TOKENS 1 < ids."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

folder, tokens = Path(sys.argv[1]), int(sys.argv[2])
settings = json.loads((folder / "generation_config.json").read_text())
pairs = (folder / "encoder_model.onnx").exists()


def session(name: str) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(folder / name), providers=["CPUExecutionProvider"])


encoder = session("encoder_model.onnx") if pairs else None
decoder = session("decoder_model.onnx" if pairs else "model.onnx")
outputs = []
for row in json.loads(sys.stdin.read()):
    ids = np.array([row], dtype=np.int64)
    token_mask = np.ones_like(ids)
    prompt = [settings["decoder_start_token_id"]] if pairs else list(row)
    encoder_inputs = {}
    if encoder is not None:
        (states,) = encoder.run(None, {"input_ids": ids, "attention_mask": token_mask})
        encoder_inputs = {"encoder_hidden_states": states, "encoder_attention_mask": token_mask}
    generated: list[int] = []
    while len(generated) < tokens:
        input_ids = np.array([prompt + generated], dtype=np.int64)
        (logits,) = decoder.run(None, {"input_ids": input_ids, **encoder_inputs})
        token = int(logits[0, -1].argmax())
        if token == settings["eos_token_id"]:
            break
        generated.append(token)
    outputs.append(generated)
print(json.dumps(outputs))
