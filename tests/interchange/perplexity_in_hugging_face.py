"""Perplexity the way of Hugging Face's guide: [[folder, ids, max_length, stride] …] in, sums out.

Their windows count the token to be foretold: max_length is our context and one more.
"""

import json
import sys
from functools import cache
from typing import Any

import torch
from transformers import AutoModelForCausalLM


@cache
def loaded(folder: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder).eval()


def strided(folder: str, row: list[int], max_length: int, stride: int) -> tuple[float, int]:
    model, ids = loaded(folder), torch.tensor([row])
    length, before, total, count = ids.size(1), 0, 0.0, 0
    for begin in range(0, length, stride):
        end = min(begin + max_length, length)
        window = ids[:, begin:end]
        targets = window.clone()
        targets[:, : -(end - before)] = -100
        with torch.no_grad():
            loss = model(window, labels=targets).loss
        counted = int((targets[:, 1:] != -100).sum())
        total, count, before = total + float(loss) * counted, count + counted, end
        if end == length:
            break
    return total, count


print(json.dumps([strided(*arguments) for arguments in json.loads(sys.stdin.read())]))
