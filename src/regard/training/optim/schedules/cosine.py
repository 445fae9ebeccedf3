"""Linear warmup, then decay along half a cosine (Loshchilov and Hutter 2017, without restarts)."""

import math

from pydantic import Field

from regard.training.optim.schedules.base import ScheduleSpec


class Spec(ScheduleSpec):
    """schedule: {kind: cosine, floor: 0.1}"""

    floor: float = Field(0.0, ge=0, le=1, description="factor at the end")

    def decay_factor(self, step: int, progress: float) -> float:
        half = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        return self.floor + (1 - self.floor) * half
