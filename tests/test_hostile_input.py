"""A share of the hostile-input campaign: damaged files and odd command lines end in a sentence."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
CASES = 150

# In a process of its own, which has no threads and forks a child for each case.
SCRIPT = f"""
import sys
from pathlib import Path
import hostile
result = hostile.campaign(range({CASES}), 1, 2, Path(sys.argv[1]), check=False)
assert sum(sum(counts.values()) for counts in result["formats"].values()) == {CASES}
sys.exit("\\n".join(result["defects"]) or 0)
"""


def test_damaged_inputs_end_in_a_sentence(tmp_path: Path) -> None:
    seeds = [sys.executable, "-m", "hostile_input.seeds", str(tmp_path / "seeds"), "--small"]
    subprocess.run(seeds, cwd=BENCHMARKS, check=True)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "seeds")]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
