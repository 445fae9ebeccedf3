"""Which claims there are, and how one is tested."""

import json
import platform
import time
from collections.abc import Mapping
from typing import Any, cast

import torch

from regard import __version__
from regard.config import kind_specs, validate
from regard.errors import ConfigError
from regard.lab.claim import Claim
from regard.lab.experiment import Bench
from regard.lab.finding import Finding
from regard.training.reporting.progress import Reporter, silent


def all_claims() -> list[type[Claim]]:
    """All of them, in the order of the lecture."""
    claims = cast("list[type[Claim]]", kind_specs(Claim.package))
    return sorted(claims, key=lambda claim: claim.number)


def claim_named(name: str, changes: Mapping[str, Any] | None = None, quick: bool = False) -> Claim:
    """A claim with the full settings, or the quick ones, and what is changed in them."""
    by_name = {each.kind(): each for each in all_claims()}
    if name not in by_name:
        raise ConfigError(f"there is no claim '{name}'; there are: {', '.join(by_name)}.")
    claim = by_name[name]
    return validate(claim, {**(claim.quick if quick else {}), **(changes or {})}, name)


def run(
    claim: str | Claim,
    changes: Mapping[str, Any] | None = None,
    quick: bool = False,
    report: Reporter = silent,
) -> Finding:
    """Test one claim, by name or as it is given."""
    asked = claim if isinstance(claim, Claim) else claim_named(claim, changes, quick)
    began = time.perf_counter()
    evidence = asked.gather(Bench(report, asked.title))
    # Through JSON, so that what is judged now is what is judged when it is read again.
    kept = json.loads(json.dumps(evidence))
    return Finding(asked, kept, time.perf_counter() - began, machine())


def machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "regard": __version__,
    }
