"""The model card: what a stranger who finds the run folder needs to know."""

from collections.abc import Mapping
from typing import Any

from regard.data.sources import ParallelText
from regard.evaluation.translation import TranslationScore
from regard.training.recipe import Recipe


def card(
    recipe: Recipe,
    text: ParallelText,
    details: Mapping[str, Any],
    scores: Mapping[str, TranslationScore],
) -> str:
    first, second = text.languages
    rows = "\n".join(
        f"| {direction} | {each.bleu:.1f} | {each.chrf:.1f} | {each.exact:.1%} | {each.pairs:,} |"
        for direction, each in scores.items()
    )
    signature = next(iter(scores.values())).signature
    return f"""# A translator, {first} ↔ {second}

Made with Regard: {recipe.model.kind()}, {details["parameters"]:,} parameters, trained for
{recipe.training.steps:,} steps on {text.about}. `recipe.yaml` says exactly how.

| direction | BLEU | chrF | exact | held-out pairs |
|---|---|---|---|---|
{rows}

BLEU and chrF by sacrebleu on detokenised text ({signature}).

    echo "…" | regard translate THIS-FOLDER --to {second}

```python
import regard

regard.load("THIS-FOLDER").translate(["…"], to="{second}")
```
"""
