"""The schedule of Vaswani et al. 2017, equation 3: linear warmup, then decay as 1/√step.

    rate = D^−½ · min(step^−½, step · warmup^−³⁄²)

The optimizer's learning rate is the peak, which the paper reaches at step = warmup with
D^−½ · warmup^−½.
"""

import math

from pydantic import Field

from regard.training.optim.schedules.base import ScheduleSpec


class Spec(ScheduleSpec):
    """schedule: {kind: inverse-sqrt, warmup: 4000}"""

    warmup: int = Field(4000, gt=0, description="steps until the learning rate reaches its peak")

    def warmup_factor(self, step: int) -> float:
        return step / self.warmup

    def decay_factor(self, step: int, progress: float) -> float:
        return math.sqrt(self.warmup / step)
