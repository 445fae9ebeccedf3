"""Down in a line to zero: whatever the budget, the weights have come to rest when it ends."""

from regard.training.optim.schedules.base import ScheduleSpec


class Spec(ScheduleSpec):
    """schedule: {kind: linear, warmup: 20}"""

    def falling(self, step: int, progress: float) -> float:
        return max(0.0, 1.0 - progress)
