"""The recipes of benchmarks/reference_runs.py are valid: they follow every renamed key."""

from pathlib import Path

import pytest
import yaml

import regard

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


def test_recipes_are_valid(tmp_path: Path) -> None:
    from reference.settings import RUNS

    recipe = tmp_path / "recipe.yaml"
    for run in RUNS.values():
        if run.recipe is not None and "init" not in run.recipe:  # init reads a run folder
            recipe.write_text(yaml.safe_dump(run.recipe), encoding="utf-8")
            regard.read_recipe(recipe)


def test_decoding_settings_are_valid() -> None:
    from reference.settings import BEAMS, SAMPLINGS
    from regard.decoding.config import DecodingConfig
    from regard.decoding.sampling import Sampling

    for settings in BEAMS.values():
        DecodingConfig(**settings)
    for settings in SAMPLINGS.values():
        Sampling(**settings)
