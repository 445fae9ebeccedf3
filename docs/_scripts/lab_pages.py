"""Write the pages of docs/explanation/lab again from their evidence, without the experiments.

python docs/_scripts/lab_pages.py

To measure again: `regard lab all --report docs/explanation/lab --overwrite`.
"""

from pathlib import Path

from regard.lab import report

FOLDER = Path(__file__).parents[1] / "explanation" / "lab"

if __name__ == "__main__":
    for finding in report.read_all(FOLDER):
        report.write(finding, FOLDER)
        print(finding.claim.kind(), finding.conclusion)
