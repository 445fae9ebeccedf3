"""Parts of a text that must come through a translation unchanged: numbers, links, variables.

    {name}  {0:.2f}  %s  %(count)d  ${HOME}  <b>  &amp;  https://…  me@example.org  1,234.5

A model that has never seen them would spell them anew. They are forced: the search must say each of
them, as often as the source does (`forced.py`).
"""

import re

KEPT = re.compile(
    r"""
      https?://[^\s<>"')\]]*[^\s<>"')\].,;:!?]      # links, without the full stop after them
    | [\w.+-]+@[\w-]+\.[\w.-]*\w                    # addresses
    | \$?\{\{?[^{}\s]*\}?\}                         # {name}, {{name}}, ${name}
    | %(?:\(\w+\))?[-+\#0]*\d*(?:\.\d+)?[a-zA-Z%]   # %s, %(name)s, %.2f, %%
    | </?[a-zA-Z][^<>]*>                            # markup
    | &\#?\w+;                                      # entities
    | \d+(?:[.,:/-]\d+)*                            # numbers, times and dates
    """,
    re.VERBOSE,
)


def kept_parts(text: str) -> list[str]:
    """What of a text must be in its translation, in order, each as often as it occurs."""
    return [found[0] for found in KEPT.finditer(text)]


def lost_parts(source: str, translation: str) -> list[str]:
    """Those of the source that the translation has not, or not as often."""
    left = translation
    lost = []
    for part in sorted(kept_parts(source), key=len, reverse=True):
        before, found, after = left.partition(part)
        if found:
            left = before + "\0" + after
        else:
            lost.append(part)
    return lost
