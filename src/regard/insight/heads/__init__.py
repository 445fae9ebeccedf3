"""Compare the heads of a model, measure which are needed, and prune the others.

    from regard.insight.heads import read_examples, study

    translator = regard.load_translator("runs/demo")
    result = study(translator, read_examples(translator, Path("pairs.tsv")))
    result.heads[0].label, result.ablation.knee(1.0)

`prune` writes a smaller run without some heads.
"""

from regard.insight.heads.examples import Examples, read_examples
from regard.insight.heads.head_masks import masked_heads
from regard.insight.heads.pruning import choose, prune
from regard.insight.heads.study import Study, study

__all__ = ["Examples", "Study", "choose", "masked_heads", "prune", "read_examples", "study"]
