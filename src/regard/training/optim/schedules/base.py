"""How the learning rate moves while training goes on, one file a kind."""

from pydantic import Field

from regard.config import Kind


class ScheduleSpec(Kind, package="regard.training.optim.schedules", default="linear"):
    """A kind of schedule: what the optimizer's learning rate is multiplied by at each step."""

    warmup: int = Field(20, ge=0, description="steps until the learning rate is at its peak")

    def factor(self, step: int, progress: float) -> float:
        """Between 0 and 1, for the step-th update, counted from 1.

        `progress` is how much of training is behind: steps of all steps, or time of the budget.
        """
        return min(self.rising(step), self.falling(step, progress))

    def rising(self, step: int) -> float:
        return min(1.0, step / (self.warmup + 1))

    def falling(self, step: int, progress: float) -> float:
        raise NotImplementedError
