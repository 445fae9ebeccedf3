"""Damage data: bytes, JSON values, YAML, lines, safetensors headers and Parquet schemas.

Every function takes the data and a random generator and returns damaged data; the same generator
state gives the same damage.
"""

import io
import json
import struct
from collections.abc import Callable
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

DEEP = "[" * 3000 + "]" * 3000
JSON_VALUES = [
    "null",
    "true",
    "-1",
    "0",
    "1",
    "1.5",
    "2",
    "1" + "0" * 30,
    "9" * 5000,
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    '""',
    '"x"',
    "[]",
    "{}",
    "[[]]",
    '[""]',
    "[null]",
    '{"a": 1}',
    DEEP,
    r'"\ud800"',
    r'"\udc80x"',
    r'"\u0000"',
    json.dumps("x" * 100_000),
    '"../../../etc/passwd"',
    '"/dev/null"',
    '"🦊"',
    r'"\n"',
    "4294967296",
    "9223372036854775807",
    "2147483648",
    "65536",
    "1e-300",
    "-0.0",
    '"nan"',
    '"' + "é" * 300 + '"',
]
YAML_VALUES = [
    *JSON_VALUES,
    ".nan",
    ".inf",
    "2001-01-01",
    "2001-99-99",
    "!!binary aGk=",
    "!!python/object:os.system x",
    "&a [*a]",
    "*missing",
    "!!set {a}",
    "1:30",
    "0x7fffffffffffffffffff",
    "|\n x",
    "~",
    "? x",
    "- x",
    "\t",
    "{a: b}",
    "&a {x: 1}",
    "on",
    "!!timestamp x",
]
FIELDS = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r",
    b"\x85",
    b"\xe2\x80\xa8",
    b"\t",
    b"\n\n",
    b"9" * 5000,
    b"-1",
    b"nan",
    b"1e400",
    b"x" * 200_000,
    b'"',
    b"\\",
    b"<s></s><pad>",
    "🦊".encode() * 50,
    "é".encode()[:1],
    b"\x1f\x8b\x08\x00",
    b"_",
    b"0",
    b"a b c d e f g",
    b"{",
    b"[" * 3000,
    b'msgid "',
    b"#",
    b"\\u",
]


def flip(data: bytes, draw: Random) -> bytes:
    """Change a few bytes."""
    changed = bytearray(data or b"x")
    for _ in range(draw.choice((1, 1, 2, 8))):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def truncate(data: bytes, draw: Random) -> bytes:
    """Cut off the end."""
    return data[: draw.randrange(len(data) + 1)]


def repeat(data: bytes, draw: Random) -> bytes:
    """Repeat a part."""
    begin, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[begin:end] * draw.choice((1, 1, 3)) + data[end:]


def remove(data: bytes, draw: Random) -> bytes:
    """Remove a part."""
    begin = draw.randrange(len(data) + 1)
    return data[:begin] + data[begin + draw.choice((1, 4, 64)) :]


def insert(data: bytes, draw: Random) -> bytes:
    """Insert something odd."""
    place = draw.randrange(len(data) + 1)
    return data[:place] + draw.choice(FIELDS) + data[place:]


def replace_all(data: bytes, draw: Random) -> bytes:  # noqa: ARG001
    """Replace everything."""
    length = draw.choice((0, 1, 7, 8, 100, 4096))
    return draw.choice((b"", b"{}", b"[]", b"null", b"\n", draw.randbytes(length), b"\0" * length))


BYTES: list[Mutation] = [flip, truncate, repeat, remove, insert, replace_all]


def json_value(data: bytes, draw: Random, values: list[str] = JSON_VALUES) -> bytes:
    """Replace, remove, rename or repeat a value of JSON."""
    try:
        content = json.loads(data)
    except ValueError:
        return flip(data, draw)
    places = list(_places(content))
    if not places:
        return draw.choice(values).encode()
    parent, key = draw.choice(places[:400])
    action = draw.choice(("replace",) * 5 + ("remove", "rename", "repeat"))
    if action == "remove":
        del parent[key]
    elif action == "rename" and isinstance(parent, dict):
        parent[draw.choice(("", "x", key + "x", "kind"))] = parent.pop(key)
    elif action == "repeat" and isinstance(parent, dict):
        text = json.dumps(content, ensure_ascii=False)
        name = json.dumps(key, ensure_ascii=False)
        return text.replace(f"{name}:", f"{name}: {draw.choice(values)}, {name}:", 1).encode()
    else:
        parent[key] = "@HOSTILE@"
        text = json.dumps(content, ensure_ascii=False)
        return text.replace('"@HOSTILE@"', draw.choice(values), 1).encode(errors="surrogatepass")
    return json.dumps(content, ensure_ascii=False).encode(errors="surrogatepass")


def yaml_value(data: bytes, draw: Random) -> bytes:
    """Replace, remove, rename or repeat a value of a recipe, which is written as JSON."""
    return json_value(data, draw, YAML_VALUES)


def _places(content: Any) -> Any:
    """Yield the container and key of every value."""
    if not isinstance(content, (dict, list)):
        return
    for key in list(content) if isinstance(content, dict) else range(len(content)):
        yield content, key
        yield from _places(content[key])


def line_field(data: bytes, draw: Random) -> bytes:
    """Replace a field between tabs, spaces or quotes in one line."""
    lines = data.split(b"\n")
    row = draw.randrange(len(lines))
    mark = draw.choice((b"\t", b"\t", b" ", b'"', b"="))
    fields = lines[row].split(mark)
    fields[draw.randrange(len(fields))] = draw.choice(FIELDS)
    lines[row] = mark.join(fields)
    return b"\n".join(lines)


def lines_order(data: bytes, draw: Random) -> bytes:
    """Repeat, remove or exchange lines, or end them in another way."""
    lines = data.split(b"\n")
    first, second = (draw.randrange(len(lines)) for _ in range(2))
    action = draw.randrange(4)
    if action == 0:
        lines[first], lines[second] = lines[second], lines[first]
    elif action == 1:
        del lines[first]
    elif action == 2:
        lines[first:first] = [lines[second]] * draw.choice((1, 50))
    else:
        return draw.choice((b"\r\n", b"\r", b"\n\n", b"\t", b"")).join(lines)
    return b"\n".join(lines)


def json_line(data: bytes, draw: Random) -> bytes:
    """Damage a value in one line of JSON."""
    lines = data.split(b"\n")
    row = draw.randrange(len(lines))
    lines[row] = json_value(lines[row], draw)
    return b"\n".join(lines)


def tensor_header(data: bytes, draw: Random) -> bytes:
    """Damage the header of a safetensors file; its length stays right, or is wrong."""
    length = struct.unpack("<Q", data[:8])[0]
    header = json_value(data[8 : 8 + length], draw)
    stated = draw.choice((len(header),) * 6 + (0, 1 << 62, (1 << 64) - 1, len(header) - 1, 1 << 30))
    return struct.pack("<Q", stated) + header + data[8 + length :]


def tensor_data(data: bytes, draw: Random) -> bytes:
    """Put values that are not finite, or huge, into a safetensors file."""
    length = struct.unpack("<Q", data[:8])[0]
    begin = 8 + length + 4 * draw.randrange(max(1, (len(data) - 8 - length) // 4))
    value = struct.pack("<f", draw.choice((float("nan"), float("inf"), -3e38, 3e38, 1e-45)))
    return data[:begin] + value + data[begin + 4 :]


def parquet_schema(data: bytes, draw: Random) -> bytes:  # noqa: ARG001
    """Write a Parquet file with odd columns instead."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = ["a dog", "two men", "un chien"]
    columns = draw.choice(
        [
            [("source", texts), ("source", texts), ("target", texts)],
            [("source", [1, 2, 3]), ("target", texts)],
            [("source", [None, None, None]), ("target", texts)],
            [("source", [["a"], ["b"], []]), ("target", texts)],
            [("source", [{"x": 1}] * 3), ("target", texts)],
            [("source", [b"\xff", b"a", b""]), ("target", texts)],
            [("source", texts)],
            [],
            [("source", []), ("target", [])],
            [("translation", [{"fr": "x", "en": "y"}] * 3)],
            [("source", ["x" * 1_000_000] * 3), ("target", texts)],
            [("source", [float("nan")] * 3), ("target", [True, False, None])],
            [("source", pa.array(texts).dictionary_encode()), ("target", texts)],
            [("source", pa.array(["a", None, "c"])), ("target", texts)],
        ]
    )
    arrays = [column if isinstance(column, pa.Array) else pa.array(column) for _, column in columns]
    table = pa.Table.from_arrays(arrays, names=[name for name, _ in columns])
    file = io.BytesIO()
    pq.write_table(table, file)
    return flip(file.getvalue(), draw) if draw.random() < 0.2 else file.getvalue()


JSON: list[Mutation] = [json_value, json_value, json_value, *BYTES]
YAML: list[Mutation] = [yaml_value, yaml_value, yaml_value, yaml_value, *BYTES]
LINES: list[Mutation] = [line_field, line_field, lines_order, *BYTES]
JSON_LINES: list[Mutation] = [json_line, json_line, *LINES]
TENSORS: list[Mutation] = [tensor_header, tensor_header, tensor_header, tensor_data, *BYTES]
PARQUET: list[Mutation] = [parquet_schema, parquet_schema, *BYTES]


def of_file(name: str) -> list[Mutation]:
    """Return the mutations that suit a file, by its name."""
    for ending, mutations in (
        (".json", JSON),
        (".yaml", YAML),
        (".safetensors", TENSORS),
        (".parquet", PARQUET),
        (".jsonl", JSON_LINES),
        (".tsv", LINES),
        (".txt", LINES),
        (".po", LINES),
        (".conllu", LINES),
        (".vec", LINES),
    ):
        if name.endswith(ending):
            return mutations
    return BYTES
