"""Prune heads: remove their rows of W_Q, W_K and W_V and their columns of W_O.

`retained_heads` of the model's spec lists the remaining heads. The pruned model computes what the
full model computes with those heads masked. The columns of W_O of a head with a remaining duplicate
are added to the duplicate's.
"""

import time
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from regard import run_folder
from regard.attention.multi_head import MultiHead
from regard.config import plain, validate
from regard.errors import ConfigError
from regard.insight.heads.ablation import ablate
from regard.insight.heads.examples import Examples
from regard.insight.heads.head_masks import duplicates
from regard.insight.heads.head_names import Head, attention, attentions, find_head, heads_of, units
from regard.insight.heads.losses import has_loss, losses, run
from regard.loading import load
from regard.merged_run import read_merged
from regard.models.base import ModelSpec, parameter_count
from regard.models.prune import retain_heads
from regard.models.transformer import TransformerSpec
from regard.models.weights import weights_of
from regard.training.reporting.progress import Reporter, silent

PASSES = 5  # over the text; the fastest counts


def choose(
    model: nn.Module, examples: Examples, share: float, report: Reporter = silent
) -> list[Head]:
    """Choose the heads to remove: a share of all, the least important first."""
    total = len(heads_of(model))
    count = head_count(model, share)
    if not has_loss(model):
        raise ConfigError(
            "an encoder has no loss to choose heads by: name the heads to remove "
            "(--remove encoder.1.2) instead."
        )
    ablation = ablate(model, examples, most=count, report=report)
    chosen = [head for unit in ablation.order for head in unit]
    if len(chosen) < count:
        report.say(
            f"At least one head of each attention stays, and heads that share keys are removed "
            f"together: {len(chosen)} of {count} heads can be removed (of {total})."
        )
    return chosen


def head_count(model: nn.Module, share: float) -> int:
    """Return the number of heads that a share is; raises ConfigError for an invalid share."""
    total = len(heads_of(model))
    if not 0 < share < 1:
        raise ConfigError(f"--prune {share:g}: give the share of heads to remove, between 0 and 1.")
    count = round(share * total)
    if count < min(map(len, units(model))):
        raise ConfigError(
            f"--prune {share:g}: less than one of {total} heads; give a larger share."
        )
    return count


def named(model: nn.Module, names: Sequence[str]) -> list[Head]:
    """Return heads by name; raises ConfigError where an attention would lose all heads."""
    chosen = [find_head(model, name) for name in names]
    for heads in attentions(model).values():
        if set(heads) <= set(chosen):
            layer = str(heads[0]).rpartition(".")[0]
            raise ConfigError(
                f"all {len(heads)} heads of {layer} would be removed: at least one must stay; "
                f"leave one of them out."
            )
    return chosen


@dataclass(frozen=True)
class Pruned:
    """Sizes of a model before and after pruning."""

    parameters: tuple[int, int]  # before and after
    heads: tuple[int, int]


def prune(
    folder: Path, output: Path, heads: Collection[Head | str], overwrite: bool = False
) -> Pruned:
    """Write a run without some heads.

    Args:
        folder: the run folder.
        output: the folder of the pruned run.
        heads: heads or their names.
        overwrite: replace a run that is in `output` (default: False).
    """
    with run_folder.writing(output):
        check_place(folder, output, overwrite)
        return _prune(folder, output, heads)


def _prune(folder: Path, output: Path, heads: Collection[Head | str]) -> Pruned:
    whole = read_merged(folder)
    model: nn.Module = load(folder).model
    gone = named(model, [str(head) for head in heads])
    smaller = pruned(model, gone)
    spec = cast("TransformerSpec", validate(ModelSpec, whole.model, str(folder)))
    left = spec.model_copy(update={"retained_heads": _left(spec, model, gone)})
    result = Pruned(
        (parameter_count(model), parameter_count(smaller)),
        (len(heads_of(model)), len(heads_of(smaller))),
    )
    # The scores are those of the full model: drop them.
    unscored = {k: v for k, v in whole.details.items() if k not in ("scores", "scored_on")}
    names = sorted(map(str, gone))
    details = {"parameters": result.parameters[1], "pruned": {"from": str(folder), "heads": names}}
    run_ = replace(
        whole,
        model=plain(left),
        details={**unscored, **details},
        weights=weights_of(smaller),
        documents={"README.md": _card(folder, result, names)},
    )
    run_folder.write(run_, output)
    return result


def check_place(folder: Path, output: Path, overwrite: bool = False) -> None:
    """Check that the pruned run can be written, before the heads are chosen."""
    run_folder.refuse_to_replace(output, overwrite, folder)
    run_folder.check_writable(output)
    run_folder.fingerprint(folder)


def pruned(model: nn.Module, gone: Collection[Head]) -> nn.Module:
    """Return a copy without these heads."""
    smaller = deepcopy(model)
    retained = {}
    for name, heads in attentions(model).items():
        left = [head.number for head in heads if head not in gone]
        if len(left) < len(heads):
            _add_to_duplicates(attention(smaller, name), left)
            retained[name] = left
    retain_heads(smaller, retained)
    return smaller.eval()


@torch.no_grad()
def _add_to_duplicates(heads: MultiHead, left: Sequence[int]) -> None:
    """Add the columns of W_O of each removed head to its duplicate's, if one remains."""
    first = duplicates(heads)
    columns = heads.w_o.weight.view(-1, heads.heads, heads.head_dim)  # (D, H, K)
    for head in set(range(heads.heads)) - set(left):
        other = next((number for number in left if first[number] == first[head]), None)
        if other is not None:
            columns[:, other] += columns[:, head]


def _left(
    spec: TransformerSpec, model: nn.Module, gone: Collection[Head]
) -> dict[str, tuple[int, ...]]:
    """Return the retained heads, numbered as before any pruning."""
    left = dict(spec.retained_heads or {})
    for name, heads in attentions(model).items():
        own = left.get(name, tuple(range(spec.heads)))
        retained = tuple(own[head.number] for head in heads if head not in gone)
        if len(retained) < spec.heads:
            left[name] = retained
    return left


def _card(folder: Path, result: Pruned, names: Sequence[str]) -> str:
    return f"""# {folder.name}, pruned

Pruned by Regard from {folder}: {result.heads[1]} of {result.heads[0]} heads and
{result.parameters[1]:,} of {result.parameters[0]:,} parameters remain.

Removed heads: {", ".join(names)}.
"""


@dataclass(frozen=True)
class Cost:
    """Loss and time of a model."""

    loss: float | None
    seconds: float  # for one pass over the text


@torch.inference_mode()
def compared(first: Any, second: Any, examples: Examples) -> tuple[Cost, Cost]:
    """Compare two models on the same text, timed in turns."""
    models, best = (first, second), [float("inf")] * 2
    device = next(first.parameters()).device
    for _ in range(PASSES):
        for which, model in enumerate(models):
            began = time.perf_counter()
            for batch in examples.batches():
                run(model, batch.to(device))
            best[which] = min(best[which], time.perf_counter() - began)
    result = [losses(model, examples).mean if has_loss(model) else None for model in models]
    return Cost(result[0], best[0]), Cost(result[1], best[1])
