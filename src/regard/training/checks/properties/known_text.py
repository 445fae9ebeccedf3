"""The tokenizer knows the training text."""

from typing import ClassVar

from regard.training.checks.properties.base import Check, Property
from regard.training.checks.setup import CheckContext
from regard.training.trainer import MAX_UNKNOWN


class Spec(Property):
    order: ClassVar[int] = 1

    def check(self, context: CheckContext) -> Check:
        return Check(
            "the tokenizer knows the text",
            "fraction of the training tokens unknown or spelled in bytes",
            context.unknown,
            MAX_UNKNOWN,
            "is it the right tokenizer, and trained on such text? Raise tokenizer.vocabulary, or "
            "train the tokenizer on this text.",
        )
