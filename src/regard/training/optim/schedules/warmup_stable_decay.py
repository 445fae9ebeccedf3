"""Linear warmup, a constant rate, then linear decay to zero (Hu et al. 2024, MiniCPM).

Until the decay begins nothing depends on the length of the training: a checkpoint of the constant
part can be continued for longer than was planned.
"""

from pydantic import Field

from regard.training.optim.schedules.base import ScheduleSpec


class Spec(ScheduleSpec):
    """schedule: {kind: warmup-stable-decay, decay: 0.3}"""

    decay: float = Field(0.3, gt=0, le=1, description="fraction of training that decays the rate")

    def decay_factor(self, step: int, progress: float) -> float:
        return min(1.0, max(0.0, 1.0 - progress) / self.decay)
