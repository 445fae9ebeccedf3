"""How far do heads differ, and how many are needed?

    from regard.insight.heads import read_examples, study

    translator = regard.load("runs/demo")
    found = study(translator, read_examples(translator, Path("pairs.tsv")))
    found.heads[0].label, found.removal.knee(1.0)

and `prune` writes a smaller run, whose needless heads are really gone.
"""

from regard.insight.heads.examples import Examples, read_examples
from regard.insight.heads.head_masks import gated
from regard.insight.heads.pruning import choose, prune
from regard.insight.heads.study import Study, study

__all__ = ["Examples", "Study", "choose", "gated", "prune", "read_examples", "study"]
