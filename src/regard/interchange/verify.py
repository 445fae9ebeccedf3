"""Compare an imported model with transformers' own, on random tokens.

Both models compute in float32 from the same weights, so that only rounding differs: by less than
1e-5 of the largest output in every family. A setting that is read wrongly changes more than
`TOLERANCE`, and the model is refused before anything is written.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import ConfigError, DataError
from regard.models.base import ModelSpec
from regard.models.weights import set_weights

TOLERANCE = 1e-4  # of the largest output
ROWS, TOKENS = 2, 192  # more tokens than T5's largest distance
SEED = 20_170_612


def largest_difference(
    folder: Any, task: str, spec: ModelSpec, vocabulary: int, weights: Mapping[str, Tensor]
) -> float:
    """Return the largest difference of outputs, as a fraction of the largest output.

    Outputs are logits, or the states of an encoder without a head.

    Raises:
        ConfigError: transformers is not installed, or the model is not in its format.
        DataError: the outputs differ by more than TOLERANCE, or transformers refuses the folder.
    """
    if not hasattr(folder, "read_json"):
        raise ConfigError(
            f"{folder.path}: --verify compares a Hugging Face folder with transformers, which does "
            f"not read llama2.c; import it without --verify."
        )
    if find_spec("transformers") is None:
        raise ConfigError(
            "--verify compares with the package transformers, which is not installed: "
            "pip install transformers."
        )
    theirs = _load(folder.path, task)
    model = spec.build(vocabulary)
    set_weights(model, weights, str(folder.path))
    with torch.inference_mode():
        inputs = _inputs(folder.config, vocabulary, spec.max_length)
        ours, expected = _outputs(model.eval(), theirs, task, *inputs)
    difference = float((ours - expected).abs().max() / expected.abs().max().clamp(min=1e-20))
    if not difference <= TOLERANCE:
        raise DataError(
            f"{folder.path}: the imported model computes something else than transformers: outputs "
            f"differ by {difference:.1e} of the largest (tolerance {TOLERANCE:.0e}), so nothing "
            f"was written; please report this model."
        )
    return difference


def _load(path: Path, task: str) -> Any:
    import transformers

    kind = {
        "language-model": transformers.AutoModelForCausalLM,
        "translation": transformers.AutoModelForSeq2SeqLM,
        "masked-lm": transformers.AutoModelForMaskedLM,
        "encoder": transformers.AutoModel,
    }[task]
    log: Any = transformers.logging
    verbosity, progress = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        model, report = kind.from_pretrained(
            path,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            attn_implementation="eager",
            dtype=torch.float32,
        )
    except Exception as error:  # transformers raises many kinds
        raise DataError(
            f"{path}: transformers cannot load it ({' '.join(str(error).split())[:200]})."
        ) from None
    finally:
        log.set_verbosity(verbosity)
        if progress:
            log.enable_progress_bar()
    missing = sorted(name for name in report["missing_keys"] if "pooler" not in name)
    if missing:
        raise DataError(
            f"{path}: transformers finds no {missing[0]} in it and would use random numbers, so "
            f"there is nothing to compare with."
        )
    return model.eval()


def _inputs(config: Mapping[str, Any], vocabulary: int, longest: int) -> tuple[Tensor, Tensor]:
    """Random tokens (B, T), and True where they are tokens and not padding (B, T)."""
    generator = torch.Generator().manual_seed(SEED)
    length = min(TOKENS, longest)
    pad = config.get("pad_token_id")
    usable = torch.tensor([token for token in range(vocabulary) if token != pad] or [0])
    ids = usable[torch.randint(len(usable), (ROWS, length), generator=generator)]
    token_mask = torch.ones_like(ids, dtype=torch.bool)
    token_mask[-1, (length + 1) // 2 :] = False
    return ids, token_mask


def _outputs(
    model: Any, theirs: Any, task: str, ids: Tensor, token_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Outputs of both models, at tokens only."""
    mask = token_mask.long()
    if task == "language-model":
        return model(ids), theirs(ids).logits
    pad = theirs.config.pad_token_id or 0
    padded = ids.where(token_mask, pad)
    if task == "translation":
        target = ids.flip(0, 1)
        expected = theirs(padded, attention_mask=mask, decoder_input_ids=target).logits
        return model(padded, token_mask, target), expected
    if task == "masked-lm":
        states = model(padded, token_mask)
        return states[token_mask], theirs(padded, attention_mask=mask).logits[token_mask]
    states = theirs(padded, attention_mask=mask).last_hidden_state
    return model(padded, token_mask)[token_mask], states[token_mask]
