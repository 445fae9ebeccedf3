"""Run folders of models with random weights, for tests that need no trained model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from regard import run_folder
from regard.config import plain
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.models.base import ModelSpec
from regard.models.weights import weights_of


def write_random_run(
    folder: Path,
    task: str,
    model: Mapping[str, Any],
    tokenizer: Tokenizer,
    details: Mapping[str, Any],
    extra_files: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Path:
    """Write the run folder of a model with random weights and return its path."""
    spec = ModelSpec.model_validate(model)
    torch.manual_seed(seed)
    run = run_folder.Run(
        task=task,
        model=plain(spec),
        vocabulary=len(tokenizer),
        details=dict(details),
        weights=weights_of(spec.build(len(tokenizer))),
        tokenizer=tokenizer.to_json(),
        extra_files=dict(extra_files or {}),
        documents={},
    )
    run_folder.write(run, folder)
    return folder
