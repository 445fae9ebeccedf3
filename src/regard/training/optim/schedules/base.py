"""Base class of the learning-rate schedules."""

from pydantic import Field

from regard.config import Kind


class ScheduleSpec(Kind, package="regard.training.optim.schedules", default="linear"):
    """A schedule kind: the factor of the optimizer's learning rate at each step."""

    warmup: int = Field(20, ge=0, description="steps until the learning rate reaches its peak")

    def factor(self, step: int, progress: float) -> float:
        """Return the factor, between 0 and 1, of the step-th update, counted from 1.

        `progress` is the fraction of training that is done: of the steps, or of the time budget.
        """
        return min(self.warmup_factor(step), self.decay_factor(step, progress))

    def warmup_factor(self, step: int) -> float:
        """Return the factor of the warmup, which rises to 1."""
        return min(1.0, step / (self.warmup + 1))

    def decay_factor(self, step: int, progress: float) -> float:
        """Return the factor of the decay."""
        raise NotImplementedError
