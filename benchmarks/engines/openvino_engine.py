"""Run OpenVINO on Regard's ONNX export as an engine of the decoding benchmark: greedy decoding.

OpenVINO has the graphs and no search. The KV cache goes from the outputs of a step to the inputs of
the next one without a copy; rows that are done leave the batch when they are a quarter of it.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from common import MAX_TOKENS, Decode, Work, run

Arrays = dict[str, Any]
PRESENT, PAST = "present.", "past_key_values."


class Graphs:
    """The encoder, the decoder of the first token, and that of the others."""

    def __init__(self, work: Work) -> None:
        import openvino

        settings = {
            "INFERENCE_NUM_THREADS": work.threads * work.workers,
            "INFERENCE_PRECISION_HINT": "f32",  # its default is bfloat16 where there is one
            "PERFORMANCE_HINT": "LATENCY",
        }
        core = openvino.Core()
        self.requests = {
            name: core.compile_model(f"{work.model}/{name}.onnx", "CPU", settings)
            for name in ("encoder_model", "decoder_model", "decoder_with_past_model")
        }

    def __call__(self, name: str, inputs: Arrays) -> Arrays:
        outputs = self.requests[name](inputs, share_inputs=True, share_outputs=False)
        return {output.get_any_name(): array for output, array in outputs.items()}


def load(work: Work) -> Decode:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{work.model}/tokenizer.json")
    special = json.loads(Path(work.model, "generation_config.json").read_text(encoding="utf-8"))
    graphs, end = Graphs(work), special["eos_token_id"]

    def translate(rows: list[list[int]]) -> list[list[int]]:
        longest = max(map(len, rows))
        ids = np.array([row + [special["pad_token_id"]] * (longest - len(row)) for row in rows])
        mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        states = graphs("encoder_model", {"input_ids": ids, "attention_mask": mask})
        inputs: Arrays = {
            "input_ids": np.full((len(rows), 1), special["decoder_start_token_id"]),
            "encoder_hidden_states": states["last_hidden_state"],
            "encoder_attention_mask": mask,
        }
        outputs = graphs("decoder_model", inputs)
        active, done = np.arange(len(rows)), np.zeros(len(rows), bool)
        generated: list[list[int]] = [[] for _ in rows]
        caches: Arrays = {}
        while True:
            best = outputs.pop("logits")[:, -1].argmax(-1)
            caches |= {name.replace(PRESENT, PAST): array for name, array in outputs.items()}
            for index in np.flatnonzero(~done):
                row = generated[active[index]]
                done[index] = best[index] == end
                if not done[index]:
                    row.append(int(best[index]))
                    done[index] = len(row) == MAX_TOKENS
            if done.all():
                return generated
            if done.mean() >= 0.25:
                kept = np.flatnonzero(~done)
                active, done, best, mask = active[kept], done[kept], best[kept], mask[kept]
                caches = {name: np.ascontiguousarray(array[kept]) for name, array in caches.items()}
            step = {"input_ids": best[:, None], "encoder_attention_mask": mask, **caches}
            outputs = graphs("decoder_with_past_model", step)

    def decode(lines: list[str]) -> list[str]:
        rows = [[*tokenizer.encode(line, add_special_tokens=False).ids, end] for line in lines]
        order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
        texts = [""] * len(rows)
        for start in range(0, len(order), work.batch):
            group = order[start : start + work.batch]
            for index, ids in zip(group, translate([rows[i] for i in group]), strict=True):
                texts[index] = str(tokenizer.decode(ids))
        return texts

    return decode


if __name__ == "__main__":
    run(load)
