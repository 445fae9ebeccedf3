"""Lines of files: line ends, decoding, gzip, errors, memory."""

import gzip
import io
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data.records import Location, Rejected
from regard.data.sources import lines
from regard.data.sources.lines import decode, read_lines, stream_lines
from regard.errors import DataError

AT = Location("here", 7)


def write(path: Path, data: bytes, packed: bool = False) -> Path:
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.fixture
def read_stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], list[str]]:
    """Read the lines of standard input that has these bytes."""

    def read(data: bytes) -> list[str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return read_lines(Path("-"))

    return read


@pytest.fixture
def read_file(tmp_path: Path) -> Callable[[bytes], list[str]]:
    """Read the lines of a file that has these bytes."""
    return lambda data: read_lines(write(tmp_path / "text", data))


@pytest.fixture(params=["read_stdin", "read_file"])
def read(request: pytest.FixtureRequest) -> Callable[[bytes], list[str]]:
    function: Callable[[bytes], list[str]] = request.getfixturevalue(request.param)
    return function


def test_lines_end_at_newline_only(read) -> None:
    assert read("a\u2028b\r\nc\x0bd\n".encode()) == ["a\u2028b", "c\x0bd"]
    assert read(b"") == []
    assert read(b"\n") == [""]
    assert read(b"a\n\nb") == ["a", "", "b"]
    assert read(b"a\rb\r\n\x00c") == ["a\rb", "\x00c"]


def test_byte_order_mark_is_removed_and_utf16_named(read) -> None:
    assert read("\ufeffété\n\ufeff\n".encode()) == ["été", "\ufeff"]
    assert read(b"\xef\xbb\xbf") == []
    for coding in ("utf-16-le", "utf-16-be"):
        with pytest.raises(DataError, match=r"(standard input|text): this is UTF-16; convert"):
            read("\ufeffété\n".encode(coding))


def test_invalid_utf8_error_names_the_byte(read) -> None:
    message = r"(standard input|text), line 2: byte 3 \(0xe9\) is not valid UTF-8; convert"
    with pytest.raises(DataError, match=message):
        read(b"ok\nab\xe9")


def test_compressed_standard_input_is_named(read_stdin) -> None:
    with pytest.raises(DataError, match=r"standard input: this is compressed \(gzip\); decompress"):
        read_stdin(gzip.compress(b"text"))


def test_standard_input_arrives_by_parts() -> None:
    """A line and even a byte order mark may come in several reads of a pipe."""
    parts = iter([b"\xef", b"\xbb", b"\xbf\xc3", b"\xa9t\xc3\xa9\n\n", b"x", b""])
    blocks = lines._blocks(lambda _: next(parts), "here")
    assert list(lines._numbered(blocks, "here")) == [(1, "été".encode()), (2, b""), (3, b"x")]


def test_line_is_decoded_or_rejected() -> None:
    assert decode("é\u2028".encode(), AT) == "é\u2028"
    assert decode(b"caf\xe9 au lait", AT) == Rejected(AT, "invalid UTF-8", "byte 4 is 0xe9")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"").rstrip(b"\r"))),
    st.booleans(),
    st.booleans(),
    st.integers(1, 8),
)
def test_stream_lines_yields_the_written_lines(
    tmp_path: Path, given: list[bytes], windows: bool, packed: bool, block: int
) -> None:
    """For any lines, and any position of block ends between or within them."""
    end = b"\r\n" if windows else b"\n"
    # A letter first, for some bytes at the beginning of a file are marks of what it is.
    given = [b"first", *given]
    path = write(tmp_path / "lines", b"".join(line + end for line in given), packed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        assert list(stream_lines(path)) == list(enumerate(given, start=1))


@pytest.mark.parametrize("text", ["", "\n", "a", "a\n", "a\n\nb", "\n\na\u2028b\n"])
def test_lines_with_ends_concatenate_to_the_text(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "text", text.encode())
    assert b"".join(line for _, line in stream_lines(path, keep_ends=True)).decode() == text


@pytest.mark.parametrize("packed", [False, True])
def test_utf8_byte_order_mark_is_removed(tmp_path: Path, packed: bool) -> None:
    path = write(tmp_path / "marked", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", packed)
    assert list(stream_lines(path)) == [(1, b"a"), (2, b"\xef\xbb\xbfb")]


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-be", "utf-32"])
def test_utf16_is_refused(tmp_path: Path, coding: str) -> None:
    path = write(tmp_path / "wide.txt", "\ufeffbonjour\n".encode(coding))
    with pytest.raises(DataError, match=r"wide\.txt: this is UTF-16.*; convert .* to UTF-8 first"):
        list(stream_lines(path))


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(bytes(range(256)) * 999)
    damaged = {
        "cut.gz": whole[:-20],
        "bent.gz": whole[:40] + bytes(100) + whole[140:],
        "wrong.gz": whole[:-6] + b"\x00\x00" + whole[-4:],
        "longer.gz": whole + b"more",
    }
    for name, data in damaged.items():
        with pytest.raises(DataError, match=rf"{name}: damaged or truncated.*; fetch it again"):
            list(stream_lines(write(tmp_path / name, data)))


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: cannot be read \(No such file"):
        list(stream_lines(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory"):
        list(stream_lines(tmp_path))
    with pytest.raises(DataError, match=r"nowhere: cannot be read \(No such file"):
        read_lines(tmp_path / "nowhere")


def test_endless_line_is_refused_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "zeros", b"a\n" + bytes(32 * 2**20), packed=True)
    monkeypatch.setattr(lines, "MAX_LINE", 2**21)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="zeros, line 2: more than 2 MB without a newline"):
            list(stream_lines(path))
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_file_length(tmp_path: Path) -> None:
    path = write(tmp_path / "long", (b"x" * 2000 + b"\n") * 10_000, packed=True)
    tracemalloc.start()
    try:
        assert sum(1 for _ in stream_lines(path)) == 10_000
        assert tracemalloc.get_traced_memory()[1] < 8 * lines.BLOCK
    finally:
        tracemalloc.stop()
