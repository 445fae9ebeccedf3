"""Linear warmup, then constant: for fine-tuning, and for comparison with weight averaging."""

from regard.training.optim.schedules.base import ScheduleSpec


class Spec(ScheduleSpec):
    """schedule: constant"""

    def decay_factor(self, step: int, progress: float) -> float:
        return 1.0
