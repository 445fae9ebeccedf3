"""Quality rules for single records: empty texts, length, length ratio, odd characters."""

from dataclasses import replace

from regard.data.filters.config import FiltersSpec
from regard.data.records import Location, Record, Rejected
from regard.data.sources.base import RecordType
from regard.data.sources.characters import ODD, SURROGATE, WINDOWS_1252, name

# "OK" may well translate a whole phrase: the length ratio of texts this short means nothing.
SHORT = 20
TEXT_NAMES = {
    "pair": ("first side", "second side"),
    "labeled": ("text", "second text"),
    "text": ("line",),
}
WRONG_ENCODING = "wrong encoding"  # the reason for a character that fix_encoding repairs
# The setting that lets more records pass, for each reason.
SETTINGS = {
    "length ratio": "max_ratio",
    "too long": "max_characters",
    "odd character": "odd_characters",
    WRONG_ENCODING: "fix_encoding",
}


def reject_reason(record: Record, spec: FiltersSpec, record_type: RecordType) -> Rejected | None:
    """Return the first reason to drop a record, or None to keep it.

    Running text is tested for odd characters only: it may have blank lines and long ones.
    """
    # A surrogate cannot be kept: it cannot be written as UTF-8.
    odd = ODD if spec.odd_characters == "drop" else SURROGATE
    for text_name, text in zip(TEXT_NAMES[record_type], record.texts, strict=False):
        if match := odd.search(text):
            return _odd_character(record, text_name, text, match.start())
        if record_type == "text":
            continue
        if not text or text.isspace():
            return Rejected(record.location, "empty side", f"the {text_name} has no text")
        if len(text) > spec.max_characters:
            detail = f"the {text_name} has {len(text):,} characters"
            return Rejected(record.location, "too long", detail)
    for label in record.labels or ():
        if match := odd.search(label):
            return _odd_character(record, "label", label, match.start())
    for number, text in enumerate(record.alternatives, start=2):
        if match := odd.search(text):
            return _odd_character(record, f"reference {number}", text, match.start())
    return _check_ratio(record, spec.max_ratio) if record_type == "pair" else None


def fixed_text(text: str) -> str:
    """Return a text with characters of Windows-1252 where it has C1 control characters."""
    return text.translate(WINDOWS_1252)


def fixed_encoding(record: Record) -> Record:
    """Return a record with all its texts and labels fixed."""
    return replace(
        record,
        texts=tuple(map(fixed_text, record.texts)),
        labels=record.labels and tuple(map(fixed_text, record.labels)),
        alternatives=tuple(map(fixed_text, record.alternatives)),
    )


def _check_ratio(record: Record, limit: float) -> Rejected | None:
    first, second = map(len, record.texts)
    longer, shorter = (first, second) if first > second else (second, first)
    if longer <= SHORT or longer <= limit * shorter:
        return None
    return Rejected(record.location, "length ratio", f"{first:,} and {second:,} characters")


def _odd_character(record: Record, text_name: str, text: str, at: int) -> Rejected:
    """Reject a record for the character at `at`; in running text, name its line."""
    location, begin = record.location, 0
    if text_name == "line":
        location = Location(location.file, location.line + text.count("\n", 0, at))
        begin = text.rfind("\n", 0, at) + 1
    article = "" if text_name.startswith("reference") else "the "
    sign = WINDOWS_1252.get(ord(text[at]))
    meaning = f" ({sign} in Windows-1252)" if sign else ""
    detail = f"{name(text[at])}{meaning} at character {at - begin + 1} of {article}{text_name}"
    return Rejected(location, WRONG_ENCODING if sign else "odd character", detail)
