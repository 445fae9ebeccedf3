"""The `training` section of a recipe."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from regard.config import Spec, kind_field
from regard.training.durations import seconds
from regard.training.optim.optimizers.base import USUAL_UPDATES, OptimizerSpec
from regard.training.optim.schedules.base import ScheduleSpec


class EvaluationSpec(Spec):
    renamed_keys: ClassVar[Mapping[str, str]] = {"keep": "select"}

    every: int = Field(500, gt=0, description="steps between evaluations on the dev data")
    metric: str | None = Field(
        None, description="metric that selects the best weights (default: the task's first)"
    )
    limit: int = Field(1000, gt=0, description="dev examples that are decoded at each evaluation")
    patience: int | None = Field(
        None, gt=0, description="early stopping: evaluations without a better score"
    )
    select: Literal["best", "last"] = Field(
        "best", description="the weights that the run ends with"
    )


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
        None, gt=0, description="time instead of steps: 90s, 20min, 1.5h (default: 20min)"
    )
    batch_tokens: int = Field(4096, gt=0, description="source and target tokens in a batch")
    grad_accumulation: int = Field(
        1, gt=0, le=10_000, description="batches whose gradients are added for one update"
    )
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="probability mass spread over the vocabulary"
    )
    seed: int = Field(1, ge=0, description="seed of initial weights, data order and dropout")
    optimizer: OptimizerSpec = kind_field(
        OptimizerSpec, "optimizer, a kind in training/optim/optimizers/"
    )
    schedule: ScheduleSpec = kind_field(
        ScheduleSpec, "learning-rate schedule, a kind in training/optim/schedules/"
    )
    dropout_start_epoch: int = Field(
        1, ge=0, description="epochs before dropout is used: text seen once cannot be overfit"
    )
    freeze: tuple[str, ...] = Field(
        (), description="parameters that are not trained, by name: embedding, blocks.0, *.bias"
    )
    layer_lr_decay: float = Field(
        1.0, gt=0, le=1, description="learning rate of a block, relative to the block above"
    )
    lr_multipliers: dict[str, Annotated[float, Field(gt=0)]] = Field(
        {}, description="factors of the learning rate, by parameter name"
    )
    max_grad_norm: float = Field(
        1.0, gt=0, description="gradients with a larger norm are clipped to it"
    )
    ema_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of the exponential moving average of the weights; 0: none",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: bfloat16 where the device computes it fast"
    )
    fsdp: bool = Field(
        False, description="shard weights and optimizer state over the processes (FSDP2)"
    )
    expert_parallel: bool = Field(
        False, description="each process keeps some experts; tokens are sent to them (all-to-all)"
    )
    evaluation: EvaluationSpec = Field(EvaluationSpec(), description="evaluation on the dev data")
    checkpoint_every: int = Field(200, gt=0, description="steps between checkpoints")
    keep_checkpoints: int = Field(2, gt=0, description="number of newest checkpoints to keep")

    @model_validator(mode="before")
    @classmethod
    def _steps_or_budget(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        if content.get("steps") is None and content.get("budget") is None:
            return {**content, "budget": "20min"}
        return content

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.steps is not None and self.budget is not None:
            raise ValueError("steps and budget are both given; leave one of them out")
        return self

    @model_validator(mode="after")
    def _one_kind_of_sharding(self) -> Self:
        if self.fsdp and self.expert_parallel:
            raise ValueError(
                "'fsdp' shards all weights and 'expert_parallel' keeps whole experts in processes; "
                "they cannot be combined, so leave one of them out"
            )
        return self

    def updates(self, steps_done: int, progress: float) -> float:
        """Return the number of updates of the training; within a budget, extrapolated."""
        if self.steps is not None:
            return self.steps
        return steps_done / progress if progress else USUAL_UPDATES

    def progress(self, steps_done: int, elapsed_seconds: float) -> float:
        """Return the fraction of training that is done, from 0 to 1."""
        if self.budget is not None:
            return min(1.0, elapsed_seconds / self.budget)
        assert self.steps is not None
        return min(1.0, steps_done / self.steps)
