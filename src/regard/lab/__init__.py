"""Experiments that test the claims of the lecture on this machine; a claim is a file in `claims/`.

from regard import lab

finding = lab.run("scaling", {"seeds": 5})
finding.verdict, finding.outcomes["variance"]
"""

from regard.lab.claim import Claim
from regard.lab.finding import Finding
from regard.lab.run import all_claims, claim_named, run

__all__ = ["Claim", "Finding", "all_claims", "claim_named", "run"]
