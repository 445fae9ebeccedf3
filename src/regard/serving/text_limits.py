"""Limit of the length of a text, before it is sent to a model.

A tokenizer needs some 150 bytes for each character while it works, and keeps them for its next
text: 8 texts of 3 MB at once took 450 MB for good, and 10 s each. No model reads so much at once.
"""

from typing import Any

from regard.serving.errors import TooLarge

MAX_CHARACTERS = 2**17


def check_texts(arguments: Any) -> None:
    """Raise TooLarge where a text in the arguments of a task, as plain data, is too long."""
    if isinstance(arguments, str):
        if len(arguments) > MAX_CHARACTERS:
            raise TooLarge(
                f"a text has {len(arguments):,} characters, more than {MAX_CHARACTERS:,}; send it "
                f"in parts."
            )
    elif isinstance(arguments, dict):
        for value in arguments.values():
            check_texts(value)
    elif isinstance(arguments, list) and not isinstance(next(iter(arguments), None), int):
        for value in arguments:  # ids of tokens have no text
            check_texts(value)
