"""Encodings other than UTF-8: recognize them, and name the commands and settings that fix them.

A file of Latin-1 or Windows-1252 has no valid UTF-8 beyond ASCII, and its bytes above 0x7f are few
and those of accented letters and typographic signs. A UTF-8 file with damaged lines is neither.
"""

import codecs
import shlex
from collections.abc import Iterable
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

# Bytes of Windows-1252 that occur in text; Latin-1 has the same from 0xa0 on.
COMMON = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýŒœŠšŽž"
    "\xa0€…‘’“”•–—™¡£§©ª«®°²³´·º»¼½¾¿×".encode("cp1252")
)
C1 = frozenset(range(0x80, 0xA0))  # signs in Windows-1252, control characters in Latin-1
MIN_COMMON = 0.9  # fraction of the bytes above 0x7f that must be in COMMON
MAX_HIGH = 0.3  # fraction of bytes above 0x7f in a line of a European language
ENOUGH = 1000  # lines beyond ASCII that decide
MANY = 10  # lines from which an unknown encoding is more likely than damage


class Guess(NamedTuple):
    """An encoding: its name for people, for iconv, and as the `encoding` of a source."""

    name: str
    iconv: str
    setting: str


LATIN_1 = Guess("Latin-1", "ISO-8859-1", "latin-1")
WINDOWS_1252 = Guess("Windows-1252", "WINDOWS-1252", "cp1252")
UTF_16 = Guess("UTF-16", "UTF-16", "utf-16")
UTF_16_LE = Guess("UTF-16 (little-endian)", "UTF-16LE", "utf-16-le")
UTF_16_BE = Guess("UTF-16 (big-endian)", "UTF-16BE", "utf-16-be")
UNKNOWN = Guess("an encoding of another script", "", "")


def guess_wide(start: bytes) -> Guess | None:
    """Return the kind of UTF-16 that the first bytes of a file are, or None."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return UTF_16
    start = start[:1000]
    for guess, zeros, others in (
        (UTF_16_LE, start[1::2], start[::2]),
        (UTF_16_BE, start[::2], start[1::2]),
    ):
        if len(zeros) > 1 and zeros.count(0) > 0.4 * len(zeros) and not others.count(0):
            return guess
    return None


def guess_narrow(lines: Iterable[bytes]) -> Guess | None:
    """Return the encoding of lines with one byte a character; None for UTF-8, or for damage."""
    valid = invalid = common = high = total = 0
    has_c1 = False
    for line in lines:
        if line.isascii():
            continue
        try:
            line.decode("utf-8")
            valid += 1
        except UnicodeDecodeError:
            invalid += 1
            beyond_ascii = [byte for byte in line if byte > 0x7F]
            high, total = high + len(beyond_ascii), total + len(line)
            common += sum(byte in COMMON for byte in beyond_ascii)
            has_c1 = has_c1 or not C1.isdisjoint(beyond_ascii)
        if abs(valid - invalid) >= ENOUGH:
            break
    if invalid <= valid:
        return None
    if common >= MIN_COMMON * high and high <= max(MAX_HIGH * total, 1):
        return WINDOWS_1252 if has_c1 else LATIN_1
    return UNKNOWN if invalid >= MANY else None


def conversion(guess: Guess, path: str | None) -> str:
    """Return the command that converts a file, or standard input, to UTF-8."""
    command = f"iconv -f {guess.iconv} -t UTF-8"
    if path is None:
        return f"`{command}`"
    source, target = shlex.quote(path), shlex.quote(f"{path.removesuffix('.gz')}.utf8")
    if path.endswith(".gz"):
        return f"`gzip -dc {source} | {command} > {target}`"
    return f"`{command} {source} > {target}`"


def remedy(guess: Guess, path: str) -> str:
    """Return what to do with a file of this encoding that a source reads."""
    if guess is UNKNOWN:
        return "name it with the key `encoding` of this source, as in `encoding: cp1251`"
    return (
        f"set `encoding: {guess.setting}` for this source, or convert the file: "
        f"{conversion(guess, path)}"
    )


def _check_known(name: str) -> str:
    """Return the name of a text encoding; raises ValueError for any other."""
    try:
        "a".encode(name).decode(name)
    except (LookupError, UnicodeError, TypeError, ValueError):
        raise ValueError(
            f"{name!r} is no encoding; give one as latin-1, cp1252 or utf-16"
        ) from None
    return name


Encoding = Annotated[str, AfterValidator(_check_known)]
