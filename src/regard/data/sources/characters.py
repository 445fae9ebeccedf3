"""Odd characters: control characters, line separators and invalid code points, and their names."""

import re
import unicodedata

# Half of a UTF-16 pair: JSON can contain it, but it cannot be written as UTF-8.
SURROGATE = re.compile(r"[\ud800-\udfff]")

# Characters that other programs treat as the end of a line, which misaligns parallel files.
LINE_END = re.compile(r"[\x00\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

# Control characters except tab and newline, separators, surrogates, remains of wrong decoding
# (U+FFFD, a byte order mark inside), and code points that Unicode never assigns. The expression
# lists the characters that are not odd, because a common one is then recognized at once.
ODD = re.compile(
    r"[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufdcf\ufdf0-\ufefe\uff00-\ufffc"
    + "".join(rf"\U{plane:04x}0000-\U{plane:04x}fffd" for plane in range(1, 17))
    + "]"
)

# C1 control characters that are letters or signs in Windows-1252: text decoded as Latin-1 has them.
WINDOWS_1252 = {
    code: bytes([code]).decode("cp1252")
    for code in range(0x80, 0xA0)
    if code not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)  # which Windows-1252 leaves undefined
}

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
    """Return the code point and name of a character: `U+2028 LINE SEPARATOR`."""
    default = unicodedata.name(character, _CATEGORIES.get(unicodedata.category(character), ""))
    return f"U+{ord(character):04X} {_NAMES.get(character, default)}".rstrip()


def quote(text: str, width: int = 60) -> str:
    """Return the beginning of a text in quotes on one line, with invisible characters escaped."""
    return repr(shortened(text, width))


def shortened(text: str, width: int = 300) -> str:
    """Return a text, or the beginning of a longer one."""
    return text if len(text) <= width else f"{text[:width]}…"
