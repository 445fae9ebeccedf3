"""Up in a line, then level: for fine-tuning, and for comparing with weight averaging."""

from regard.training.optim.schedules.base import ScheduleSpec


class Spec(ScheduleSpec):
    """schedule: constant"""

    def falling(self, step: int, progress: float) -> float:
        return 1.0
