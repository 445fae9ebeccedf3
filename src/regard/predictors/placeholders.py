"""Placeholders: parts of a text that a translation must keep, such as numbers, links, variables.

    {name}  {0:.2f}  %s  %(count)d  ${HOME}  <b>  &amp;  https://…  me@example.org  1,234.5

A model that was not trained on them may change them. Lexical constraints
(`decoding/lexical_constraints.py`) make the search generate each of them as often as it occurs in
the source.
"""

import re

PLACEHOLDER = re.compile(
    r"""
      https?://[^\s<>"')\]]*[^\s<>"')\].,;:!?]      # links, without the full stop after them
    | (?<![\w.+-])[\w.+-]{1,64}@[\w-]+\.[\w.-]*\w    # addresses
    | \$?\{\{?[^{}\s]*\}?\}                         # {name}, {{name}}, ${name}
    | %(?:\(\w+\))?[-+\#0]*\d*(?:\.\d+)?[a-zA-Z%]   # %s, %(name)s, %.2f, %%
    | </?[a-zA-Z][^<>]*>                            # markup
    | &\#?\w+;                                      # entities
    | \d+(?:[.,:/-]\d+)*                            # numbers, times and dates
    """,
    re.VERBOSE,
)


def placeholders(text: str) -> list[str]:
    """Return the placeholders of a text, in order, each as often as it occurs."""
    return [match[0] for match in PLACEHOLDER.finditer(text)]


def missing_placeholders(source: str, translation: str) -> list[str]:
    """Return the placeholders of the source that the translation lacks, or has less often."""
    rest = translation
    missing = []
    for part in sorted(placeholders(source), key=len, reverse=True):
        head, match, tail = rest.partition(part)
        if match:
            rest = head + "\0" + tail
        else:
            missing.append(part)
    return missing
