"""How a model is trained: the recipe's `training` section."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from regard.config import Spec, kind_field
from regard.training.optim.optimizers.base import USUAL, OptimizerSpec
from regard.training.optim.schedules.base import ScheduleSpec

_UNITS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def seconds(given: Any) -> Any:
    """ "90s", "20min", "1.5h" or a number of seconds."""
    if not isinstance(given, str):
        return given
    match = re.fullmatch(r"\s*([0-9.]+)\s*([a-z]*)\s*", given)
    if match is None or match[2] not in _UNITS or match[1].count(".") > 1 or match[1] == ".":
        raise ValueError("not a time; write 90s, 20min or 1.5h")
    return float(match[1]) * _UNITS[match[2]]


class EvaluationSpec(Spec):
    renamed_keys: ClassVar[Mapping[str, str]] = {"keep": "select"}

    every: int = Field(500, gt=0, description="steps between looks at the dev data")
    metric: str | None = Field(
        None, description="what decides which weights are best; the job's own unless given"
    )
    limit: int = Field(1000, gt=0, description="dev examples that are decoded at each look")
    patience: int | None = Field(
        None, gt=0, description="stop after so many looks without a better score"
    )
    select: Literal["best", "last"] = Field("best", description="which weights the run ends with")


class TrainingSpec(Spec):
    renamed_keys: ClassVar[Mapping[str, str]] = {
        "optimiser": "optimizer",
        "accumulate": "grad_accumulation",
        "clip": "max_grad_norm",
        "rates": "lr_multipliers",
        "layer_decay": "layer_lr_decay",
        "dropout_from": "dropout_start_epoch",
        "average": "ema_decay",
        "sharded": "fsdp",
        "spread_experts": "expert_parallel",
    }

    steps: int | None = Field(None, gt=0, description="updates of the weights")
    budget: Annotated[float, BeforeValidator(seconds)] | None = Field(
        None, gt=0, description="time instead of steps: 90s, 20min, 1.5h; 20min if neither is given"
    )
    batch_tokens: int = Field(4096, gt=0, description="source and target tokens in a batch")
    grad_accumulation: int = Field(1, gt=0, description="batches whose gradients make one update")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability spread over all words")
    seed: int = Field(1, ge=0, description="of weights, data order and dropout")
    optimizer: OptimizerSpec = kind_field(OptimizerSpec, "how the weights move")
    schedule: ScheduleSpec = kind_field(ScheduleSpec, "how the learning rate moves")
    dropout_start_epoch: int = Field(
        1, ge=0, description="passes over the data before dropout: text seen once cannot be overfit"
    )
    freeze: tuple[str, ...] = Field(
        (), description="parameters that stay as they are, by name: embedding, blocks.0, *.bias"
    )
    layer_lr_decay: float = Field(
        1.0, gt=0, le=1, description="the rate of a block is that of the one above times this"
    )
    lr_multipliers: dict[str, Annotated[float, Field(gt=0)]] = Field(
        {}, description="by name, what the rate of these parameters is multiplied by"
    )
    max_grad_norm: float = Field(1.0, gt=0, description="the largest norm of a gradient")
    ema_decay: float = Field(
        0.0, ge=0, lt=1, description="decay of a running average of the weights; 0 = none"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: bfloat16 where the device computes it fast"
    )
    fsdp: bool = Field(False, description="spread weights and optimizer over the processes (FSDP2)")
    expert_parallel: bool = Field(
        False, description="each process keeps some of the experts, and words travel to them"
    )
    evaluation: EvaluationSpec = Field(EvaluationSpec(), description="looks at the dev data")
    checkpoint_every: int = Field(200, gt=0, description="steps between checkpoints")
    keep_checkpoints: int = Field(2, gt=0, description="how many of the last are kept")

    @model_validator(mode="before")
    @classmethod
    def _steps_or_budget(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("steps") is None and given.get("budget") is None:
            return {**given, "budget": "20min"}
        return given

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.steps is not None and self.budget is not None:
            raise ValueError("give steps or a budget of time, not both")
        return self

    @model_validator(mode="after")
    def _one_way_to_spread(self) -> Self:
        if self.fsdp and self.expert_parallel:
            raise ValueError(
                "'fsdp' cuts up all weights and 'expert_parallel' gives whole experts to "
                "processes; they do not go together, so leave one of them out"
            )
        return self

    def updates(self, steps_done: int, progress: float) -> float:
        """How many updates there will be in all; within a budget, at the pace so far."""
        if self.steps is not None:
            return self.steps
        return steps_done / progress if progress else USUAL

    def progress(self, steps_done: int, seconds_gone: float) -> float:
        """How much of training is behind, from 0 to 1."""
        if self.budget is not None:
            return min(1.0, seconds_gone / self.budget)
        assert self.steps is not None
        return min(1.0, steps_done / self.steps)
