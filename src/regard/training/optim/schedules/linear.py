"""Linear warmup, then linear decay to zero, which is reached when steps or budget end."""

from regard.training.optim.schedules.base import ScheduleSpec


class Spec(ScheduleSpec):
    """schedule: {kind: linear, warmup: 20}"""

    def decay_factor(self, step: int, progress: float) -> float:
        return max(0.0, 1.0 - progress)
