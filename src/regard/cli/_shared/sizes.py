"""Amounts of memory in options: 2GB, 500 MB, 1.5GiB."""

import re

from regard.errors import ConfigError

BYTES = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*([a-z]*)", re.ASCII)


def parse_size(option: str, text: str) -> int:
    """Return the bytes of a size with a unit.

    Args:
        option: The option, for the error message.
        text: The size.

    Raises:
        ConfigError: It is no size.
    """
    match = SIZE.fullmatch(text.strip().lower())
    size = int(float(match[1]) * BYTES.get(match[2], 0)) if match else 0
    if size < 1:
        raise ConfigError(f"{option} {text}: is no size; give one such as 500MB or 2GB.")
    return size
