"""A process that fails, stops or is killed alone: the others end too, and one sentence says why.

Nothing else ends them here, as a launcher would.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import write_yaml
from regard.errors import TrainingError
from regard.training.distributed.world import distributed_world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")

# Case of failures.py: exit codes by rank, and what the one message says
EXPECTED: dict[str, tuple[list[int | None], str]] = {
    "no space for a shard": ([1, 1], "the checkpoint cannot be written"),
    "no space for metrics": ([1, 1], "metrics.jsonl: cannot be written"),
    "error in sending experts": ([1, 1], "the checkpoint cannot be written"),
    "killed in sending experts": ([1, -9], "another process of this run ended"),
    "stopped in sending experts": (
        [1, None],  # the main process, which prepares the data for 6 seconds, is not lost
        "process 1 of this run (",
    ),
    "out of memory in an evaluation": ([1, 1], "process 1 of this run has run out of memory"),
    "run folder in use": ([1, 1], "is writing it since"),
}


@dataclass(frozen=True)
class Outcomes:
    folder: Path

    def codes(self, case: str) -> list[int | None]:
        content = json.loads((self.folder / "outcomes.json").read_text())
        return list(content[case]["codes"])

    def stderr(self, case: str) -> str:
        return "".join((self.folder / f"{case}-{rank}.stderr").read_text() for rank in range(2))


@pytest.fixture(scope="module")
def outcomes(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """All cases, in processes of one start."""
    folder = tmp_path_factory.mktemp("failures")
    recipe = tiny(
        "model.dropout=0",
        "training.steps=2",
        "training.batch_tokens=300",
        "training.checkpoint_every=1",
        "training.evaluation.every=2",
    )
    (folder / "recipe.yaml").write_text(write_yaml(recipe))
    script = Path(__file__).with_name("failures.py")
    command = [sys.executable, script, folder, folder / "recipe.yaml"]
    subprocess.run(list(map(str, command)), check=True, timeout=900)
    return Outcomes(folder)


@pytest.mark.parametrize("case", EXPECTED)
def test_a_process_that_fails_ends_all_with_one_sentence(case: str, outcomes: Outcomes) -> None:
    codes, sentence = EXPECTED[case]
    stderr = outcomes.stderr(case)
    assert outcomes.codes(case) == codes, stderr
    (message,) = [line for line in stderr.splitlines() if line.startswith("regard: ")]
    assert sentence in message
    assert "Traceback" not in stderr


def test_a_single_process_without_memory_says_so() -> None:
    with (
        pytest.raises(TrainingError, match="this process has run out of memory"),
        distributed_world(),
    ):
        torch.empty(2**62, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="another error"), distributed_world():
        raise RuntimeError("another error")
