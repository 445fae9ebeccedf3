"""List the claims, and run the experiment of one."""

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
from regard.lab.experiment import Experiment
from regard.lab.finding import Finding
from regard.training.reporting.progress import Reporter, silent


def all_claims() -> list[type[Claim]]:
    """Return all claims, in the order of the lecture."""
    claims = cast("list[type[Claim]]", kind_specs(Claim.package))
    return sorted(claims, key=lambda claim: claim.number)


def claim_named(name: str, changes: Mapping[str, Any] | None = None, quick: bool = False) -> Claim:
    """Return a claim with its full or quick settings and changes to them."""
    by_name = {claim.kind(): claim for claim in all_claims()}
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
    """Run the experiment of one claim.

    Args:
        claim: a name, or a claim with its settings.
        changes: settings that differ from the defaults, for a name.
        quick: use settings for a trial of seconds; the finding has no verdict.
        report: shows progress.

    Returns:
        the evidence and the verdict.
    """
    tested = claim if isinstance(claim, Claim) else claim_named(claim, changes, quick)
    start = time.perf_counter()
    evidence = tested.gather(Experiment(report, tested.title))
    # Through JSON, so that the verdict is the same when the evidence is read again.
    plain_evidence = json.loads(json.dumps(evidence))
    return Finding(tested, plain_evidence, time.perf_counter() - start, machine(), quick)


def machine() -> dict[str, Any]:
    """Return the processor, the number of threads and the versions."""
    return {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "regard": __version__,
    }
