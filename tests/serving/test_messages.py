"""Messages between processes: any text, in pieces of any size, damaged ones refused."""

import pytest

from regard.serving.messages import DamagedMessageError, Decoder, encode

MESSAGES = [
    {"id": 1, "text": 'a\n\r\u2028"\\'},
    {"half": "\ud800", "score": None},
    {"n": [1.5, -2]},
]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_messages_arrive_as_they_were_sent(size) -> None:
    data = b"".join(map(encode, MESSAGES))
    assert data.isascii()
    decoder = Decoder()
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    assert [message for part in parts for message in decoder.feed(part)] == MESSAGES


@pytest.mark.parametrize("line", [b"[1]\n", b"{\n", b"\xff\n", b"[" * 100_000 + b"\n"])
def test_damaged_messages_are_refused(line) -> None:
    with pytest.raises(DamagedMessageError):
        list(Decoder().feed(line))


def test_a_message_without_end_is_refused() -> None:
    decoder = Decoder(max_message=100)
    assert list(decoder.feed(b'"' * 100)) == []
    with pytest.raises(DamagedMessageError):
        list(decoder.feed(b'"'))
