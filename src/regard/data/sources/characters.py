"""Characters that no sentence should hold, and what they are called."""

import re
import unicodedata

# Half of a pair of UTF-16: JSON can spell it, UTF-8 cannot, and nothing after us could write it.
SURROGATE = re.compile(r"[\ud800-\udfff]")

# What other programs take for the end of a line, and so put parallel files out of step.
LINE_END = re.compile(r"[\x00\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

# Control characters but tab and newline, separators, halves, what is left of text that was decoded
# wrongly (U+FFFD, a byte order mark inside), and the codes that Unicode promises never to assign.
# Said by what is not odd, for then a common character is known by the first look at it.
ODD = re.compile(
    r"[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufdcf\ufdf0-\ufefe\uff00-\ufffc"
    + "".join(rf"\U{plane:04x}0000-\U{plane:04x}fffd" for plane in range(1, 17))
    + "]"
)

_NAMES = {
    "\x00": "NULL",
    "\x0b": "LINE TABULATION",
    "\x0c": "FORM FEED",
    "\r": "CARRIAGE RETURN",
    "\x1b": "ESCAPE",
    "\x1c": "FILE SEPARATOR",
    "\x1d": "GROUP SEPARATOR",
    "\x1e": "RECORD SEPARATOR",
    "\x7f": "DELETE",
    "\x85": "NEXT LINE",
    "\ufeff": "BYTE ORDER MARK",
}
_CATEGORIES = {"Cc": "CONTROL CHARACTER", "Cs": "SURROGATE", "Cn": "NONCHARACTER"}


def name(character: str) -> str:
    """Its code point and name: `U+2028 LINE SEPARATOR`."""
    given = unicodedata.name(character, _CATEGORIES.get(unicodedata.category(character), ""))
    return f"U+{ord(character):04X} {_NAMES.get(character, given)}".rstrip()


def quote(text: str, width: int = 60) -> str:
    """The beginning of a text on one line, in quotes, with what cannot be seen written as code."""
    return repr(text if len(text) <= width else f"{text[:width]}…")
