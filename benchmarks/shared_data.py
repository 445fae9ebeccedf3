"""Folder of the benchmarks' data sets: the first of REGARD_DATA, or ../shared/data."""

import os
from pathlib import Path

BESIDE = Path(__file__).parents[2] / "shared" / "data"
# Recipes find their data sets there too.
DATA = Path(os.environ.setdefault("REGARD_DATA", str(BESIDE)).split(os.pathsep)[0])
