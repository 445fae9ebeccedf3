"""Run all checks of a recipe on its own model and data, before hours are spent on training."""

from collections.abc import Iterator

from regard.training.checks.properties.base import Check, all_properties
from regard.training.checks.setup import CheckContext
from regard.training.reporting.progress import Reporter


def run_checks(context: CheckContext, report: Reporter) -> Iterator[Check]:
    """Check every property in turn; a spinner shows which one is being checked."""
    for rule in all_properties():
        with report.busy(f"Checking {rule.kind().replace('-', ' ')} …"):
            check = rule.check(context)
        yield check
