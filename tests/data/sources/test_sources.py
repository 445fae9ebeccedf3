"""Sources: records and rejected lines of every kind."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.config import kinds, plain, validate
from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources import text
from regard.data.sources.base import SourceSpec
from regard.errors import ConfigError, DataError, OutputError

FR_EN = {"languages": ["fr", "en"]}
quickly = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def source(**given: Any) -> SourceSpec:
    return validate(SourceSpec, given, "recipe")


def read(**given: Any) -> list[Line]:
    return list(source(**given).records())


def pairs(**given: Any) -> list[tuple[str, ...]]:
    lines = read(**given)
    assert all(isinstance(line, Record) for line in lines), lines
    return [line.texts for line in lines if isinstance(line, Record)]


def write(path: Path, content: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


# ── every kind ───────────────────────────────────────────────────────────────────────────────────

EXAMPLES: dict[str, dict[str, Any]] = {
    "agreement": {"path": "a.conllu", "attracted": True},
    "by-file": {"classes": {"good": "a.pos", "bad": ["b.neg", "c.neg"]}},
    "conllu": {"path": "a.conllu", "comment": "mood"},
    "files": {"source": "a.fr", "target": "a.en", **FR_EN},
    "grammar": {"split": "pronouns"},
    "hub": {"name": "owner/set", "columns": ["fr", "en"], **FR_EN},
    "jsonl": {"path": "a.jsonl", "keys": ["translation.fr", "translation.en"], **FR_EN},
    "labeled": {"path": "a.tsv", "columns": [0, 2, 1], "labels": {"separator": ";"}},
    "labeled-jsonl": {"path": "a.jsonl", "labels": {"separator": ",", "none": "-"}},
    "parquet": {"path": "a", "split": "train", "columns": ["fr", "en"], **FR_EN},
    "parsed": {"path": "a.tsv", "parser": "fr_core_news_sm"},
    "po": {"path": "fr.po", "languages": ["en", "fr"]},
    "text": {"path": ["a.txt", "b/"], "documents": "blank", "fraction": [0, 0.9]},
    "tsv": {"path": "a.tsv", "columns": [2, 0], **FR_EN},
}


def test_every_kind_survives_a_yaml_round_trip() -> None:
    assert sorted(EXAMPLES) == kinds("regard.data.sources")
    for kind, example in EXAMPLES.items():
        spec = source(kind=kind, **example)
        assert validate(SourceSpec, plain(spec), "recipe") == spec
        assert spec.kind() == kind
        assert len(spec.language_pair) == (2 if spec.record_type == "pair" else 0)


@pytest.mark.parametrize(
    ("languages", "complaint"),
    [
        (["fr", "fr"], "languages: a pair has two languages, and both of these are 'fr'"),
        (["fr", "en us"], "letters, digits, - and _, not 'en us'"),
        (["fr", ""], "letters, digits, - and _, not ''"),
        ([False, "en"], "write Norwegian as 'no', in quotes"),
        (["fr"], "languages"),
        ("fr-en", "languages"),
    ],
)
def test_languages_must_be_two_names(languages: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        source(kind="tsv", path="a.tsv", languages=languages)
    assert source(kind="tsv", path="a", languages=["pt_BR", "zh-Hans"]).language_pair == (
        "pt_BR",
        "zh-Hans",
    )


@pytest.mark.parametrize("kind", sorted(EXAMPLES.keys() - {"grammar", "hub", "parsed"}))
def test_missing_file_is_reported(tmp_path: Path, kind: str) -> None:
    given = EXAMPLES[kind] | {"path": tmp_path / "nowhere"}
    if kind == "by-file":
        given = {"classes": {"good": tmp_path / "nowhere"}}
    if kind == "files":
        given = {"source": tmp_path / "nowhere", "target": tmp_path / "nowhere", **FR_EN}
    with pytest.raises(DataError, match=r"nowhere: (cannot be read \(No|there is no) such file"):
        read(kind=kind, **given)


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def aligned(tmp_path: Path, source: str | bytes, target: str | bytes) -> dict[str, Any]:
    given = {"source": write(tmp_path / "a.fr", source), "target": write(tmp_path / "a.en", target)}
    return {"kind": "files", **given, **FR_EN}


def test_files_pairs_lines_by_number(tmp_path: Path) -> None:
    given = aligned(tmp_path, "un\u2028\r\ndeux\n\n", "one\ntwo\nthree")
    place = str(tmp_path / "a.fr")
    assert read(**given) == [
        Record(Location(place, 1), ("un\u2028", "one")),
        Record(Location(place, 2), ("deux", "two")),
        Record(Location(place, 3), ("", "three")),
    ]
    assert source(**given).files() == [tmp_path / "a.fr", tmp_path / "a.en"]


def test_files_reports_the_file_of_invalid_utf8(tmp_path: Path) -> None:
    given = aligned(tmp_path, b"un\ndeux\n", b"one\n\xe9\n")
    where = Location(str(tmp_path / "a.en"), 2)
    assert read(**given)[1] == Rejected(where, "invalid UTF-8", "byte 1 is 0xe9")


@pytest.mark.parametrize(
    ("odd", "name"),
    [
        ("\u2028", "U+2028 LINE SEPARATOR"),
        ("\u2029", "U+2029 PARAGRAPH SEPARATOR"),
        ("\x85", "U+0085 NEXT LINE"),
        ("\x0b", "U+000B LINE TABULATION"),
        ("\x0c", "U+000C FORM FEED"),
        ("\x1d", "U+001D GROUP SEPARATOR"),
        ("\r", "U+000D CARRIAGE RETURN"),
        ("\x00", "U+0000 NULL"),
    ],
)
def test_misaligned_files_report_the_first_line_end_character(
    tmp_path: Path, odd: str, name: str
) -> None:
    """One file was split at the character and has a line more; the other still has it."""
    given = aligned(tmp_path, "un\r\nde\nux\r\ntrois\r\n", f"one\ntw{odd}o\nth{odd}ree\n")
    with pytest.raises(DataError) as caught:
        read(**given)
    said = str(caught.value).replace(f"{tmp_path}/", "")
    assert said.startswith("a.fr has 4 lines and a.en has 3: they are not parallel;")
    assert f"is {name} at character 3 of a.en, line 2, in the pair 'de' and 'tw" in said
    assert "\n" not in said
    assert odd not in said


def test_misaligned_files_without_line_end_character(tmp_path: Path) -> None:
    given = aligned(tmp_path, "un\ndeux\n", "one\ntwo\nthree\nfour\n")
    assert isinstance(next(source(**given).records()), Record)
    with pytest.raises(DataError, match=r"2 lines and .* has 4: .*; find the line that only one"):
        read(**given)


def test_multi30k_is_read(shared_data: Path) -> None:
    folder = shared_data / "multi30k"
    for language in ("fr", "de"):
        given = {"source": folder / f"val.{language}.gz", "target": folder / "val.en.gz"}
        read_pairs = pairs(kind="files", **given, languages=[language, "en"])
        assert len(read_pairs) == 1014
        assert read_pairs[0][1] == "A group of men are loading cotton onto a truck"


# ── tsv and labelled ─────────────────────────────────────────────────────────────────────────────


def test_tsv_reads_two_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "le chat\tthe cat\nle chien\tthe dog")
    assert pairs(kind="tsv", path=path, **FR_EN) == [
        ("le chat", "the cat"),
        ("le chien", "the dog"),
    ]
    path = write(tmp_path / "b.tsv", "1\tthe cat\tle chat\tCC-BY\n")
    assert pairs(kind="tsv", path=path, columns=[2, 1], **FR_EN) == [("le chat", "the cat")]


@pytest.mark.parametrize("bad", ["one column", "three\tcolumns\there", ""])
def test_tsv_rejects_lines_of_another_width(tmp_path: Path, bad: str) -> None:
    path = write(tmp_path / "a.tsv", f"bon\tgood\n{bad}\nmal\tbad\n")
    good, rejected, also_good = read(kind="tsv", path=path, **FR_EN)
    found = f"{bad.count('	') + 1} instead of 2"
    assert rejected == Rejected(Location(path, 2), "wrong columns", found)
    assert isinstance(good, Record)
    assert isinstance(also_good, Record)


def test_tsv_rejects_a_first_line_that_is_too_narrow(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "# pairs\nbon\tgood\n")
    assert [type(line) for line in read(kind="tsv", path=path, **FR_EN)] == [Rejected, Record]


def test_labeled_reads_text_and_label(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"fine\t1\nbad\xff\t0\nno label\n")
    lines = read(kind="labeled", path=path)
    assert lines[0] == Record(Location(path, 1), ("fine",), labels=("1",))
    assert [line.reason for line in lines if isinstance(line, Rejected)] == [
        "invalid UTF-8",
        "wrong columns",
    ]


def test_real_labeled_files_are_read(shared_data: Path) -> None:
    path = shared_data / "tatoeba-fr-en" / "dev.tsv.gz"
    read_pairs = pairs(kind="tsv", path=path, **FR_EN)
    assert (len(read_pairs), read_pairs[0]) == (1733, ("J’ai fait signe.", "I waved."))
    rated = read(kind="labeled", path=shared_data / "sst2" / "dev.tsv")
    assert {line.labels for line in rated if isinstance(line, Record)} == {("0",), ("1",)}


def test_labeled_reads_text_pairs_and_several_labels(tmp_path: Path) -> None:
    table = "one\ttwo\tnews; sport ;news\na\tb\t-\nc\td\tnews;;sport\ne\tf\t \n"
    path = write(tmp_path / "a.tsv", table)
    written = {"separator": ";", "none": "-"}
    lines = read(kind="labeled", path=path, columns=[0, 1, 2], labels=written)
    assert lines == [
        Record(Location(path, 1), ("one", "two"), labels=("news", "sport")),
        Record(Location(path, 2), ("a", "b"), labels=()),
        Rejected(Location(path, 3), "empty label", "a label is missing in 'news;;sport'"),
        Rejected(Location(path, 4), "empty label", "a label is missing in ' '"),
    ]
    (first, *_) = read(kind="labeled", path=path, columns=[0, 2])
    assert first == Record(Location(path, 1), ("one",), labels=("news; sport ;news",))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"columns": [0]}, "columns: tuple should have at least 2 items"),
        ({"columns": [0, 1, 2, 3]}, "columns: tuple should have at most 3 items"),
        ({"labels": {"none": "-"}}, "labels: none: only where a text may have several"),
        ({"labels": {"separator": ""}}, "labels.separator"),
    ],
)
def test_invalid_labeled_spec_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        source(kind="labeled", path="a.tsv", **given)


def test_labeled_jsonl_reads_labels(tmp_path: Path) -> None:
    lines = ['{"text": "a\\nb", "label": "x"}', '{"text": "b", "label": 1}']
    lines += ['{"text": "c", "label": ["x", "y"]}', '{"text": "d", "label": []}', '{"text": "e"}']
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    one, number, two, none, missing = read(kind="labeled-jsonl", path=path)
    assert one == Record(Location(path, 1), ("a\nb",), labels=("x",))
    assert one.lines == 1
    assert number == Record(Location(path, 2), ("b",), labels=("1",))
    assert isinstance(two, Rejected)
    assert "there are 2; labels: {separator" in two.detail
    assert isinstance(none, Rejected)
    assert missing == Rejected(Location(path, 5), "missing label", "label is missing")
    given = {"path": path, "labels": {"separator": ","}, "keys": ["text", "text", "label"]}
    several = read(kind="labeled-jsonl", **given)
    assert several[2:4] == [
        Record(Location(path, 3), ("c", "c"), labels=("x", "y")),
        Record(Location(path, 4), ("d", "d"), labels=()),
    ]


def test_by_file_labels_lines_by_file(tmp_path: Path, shared_data: Path) -> None:
    good = write(tmp_path / "good", "fine\nsuperb")
    bad = write(tmp_path / "bad", b"dull\n\xff")
    lines = read(kind="by-file", classes={"+": good, "-": [bad, bad]})
    dull = Record(Location(bad, 1), ("dull",), labels=("-",))
    assert lines[:3] == [
        Record(Location(good, 1), ("fine",), labels=("+",)),
        Record(Location(good, 2), ("superb",), labels=("+",)),
        dull,
    ]
    assert isinstance(lines[3], Rejected)
    assert lines[4] == dull
    with pytest.raises(ConfigError, match=r"classes: .*False is not: write it in quotes"):
        source(kind="by-file", classes={False: good, "yes": bad})
    folder = shared_data / "movie-reviews"
    real = {"positive": folder / "rt-polarity.pos", "negative": folder / "rt-polarity.neg"}
    reviews = read(kind="by-file", classes=real)
    assert sum(isinstance(each, Record) for each in reviews) == 2 * 5331


# ── jsonl ────────────────────────────────────────────────────────────────────────────────────────


@quickly
@given(st.lists(st.tuples(st.text(), st.text()), max_size=5), st.booleans())
def test_jsonl_restores_any_text(
    tmp_path: Path, texts: list[tuple[str, str]], ascii_only: bool
) -> None:
    lines = [{"id": 1, "translation": {"fr": fr, "en": en}} for fr, en in texts]
    dumped = [json.dumps(line, ensure_ascii=ascii_only) for line in lines]
    path = write(tmp_path / "a.jsonl", "\n".join(dumped))
    keys = ["translation.fr", "translation.en"]
    assert pairs(kind="jsonl", path=path, keys=keys, **FR_EN) == texts


@pytest.mark.parametrize(
    ("line", "why", "found"),
    [
        ('{"fr": "un", "en": "one"', "bad JSON", "Expecting"),
        ("", "bad JSON", "Expecting value"),
        ("[" * 100_000, "bad JSON", "recursion"),
        ('{"fr": "un"}', "missing text", "there is no en"),
        ('{"fr": null, "en": "one"}', "missing text", "there is no fr"),
        ('{"fr": "un", "en": ["one"]}', "missing text", "en is a list"),
        ('["un", "one"]', "missing text", "there is no fr"),
        (b'{"fr": "\xff", "en": "one"}', "invalid UTF-8", "byte 9 is 0xff"),
    ],
)
def test_jsonl_rejects_invalid_lines(
    tmp_path: Path, line: str | bytes, why: str, found: str
) -> None:
    path = write(tmp_path / "a.jsonl", line if line else "\n")
    (rejected,) = read(kind="jsonl", path=path, keys=["fr", "en"], **FR_EN)
    assert isinstance(rejected, Rejected)
    assert (rejected.location, rejected.reason) == (Location(path, 1), why)
    assert found in rejected.detail


# ── parquet ──────────────────────────────────────────────────────────────────────────────────────


def table(*texts: tuple[str | None, str]) -> pa.Table:
    return pa.table(
        {"id": range(len(texts)), "fr": [a for a, _ in texts], "en": [b for _, b in texts]}
    )


def parquet(path: Path, content: pa.Table) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, path, row_group_size=3)
    return str(path)


COLUMNS = {"columns": ["fr", "en"], **FR_EN}


def test_parquet_reads_columns(tmp_path: Path) -> None:
    texts = [(f"un {n}", f"one {n}") for n in range(10)]
    path = parquet(tmp_path / "a.parquet", table(*texts))
    assert pairs(kind="parquet", path=path, **COLUMNS) == texts
    assert read(kind="parquet", path=path, **COLUMNS)[6].location == Location(path, 7)


@pytest.mark.parametrize(
    "text_type", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_parquet_reads_nested_columns(tmp_path: Path, text_type: pa.DataType) -> None:
    fr, en = (pa.array(side, pa.string()).cast(text_type) for side in (["un", None], ["one", "2"]))
    rows = pa.StructArray.from_arrays([fr, en], ["fr", "en"])
    path = parquet(tmp_path / "a.parquet", pa.table({"translation": rows}))
    columns = ["translation.fr", "translation.en"]
    assert read(kind="parquet", path=path, columns=columns, **FR_EN) == [
        Record(Location(path, 1), ("un", "one")),
        Rejected(Location(path, 2), "missing text", "translation.fr is null"),
    ]


def test_parquet_rejects_only_the_row_with_invalid_utf8(tmp_path: Path) -> None:
    raw = pa.array([b"un", b"\xff"], pa.binary()).view(pa.string())
    path = parquet(tmp_path / "a.parquet", pa.table({"fr": raw, "en": ["one", "two"]}))
    assert read(kind="parquet", path=path, **COLUMNS) == [
        Record(Location(path, 1), ("un", "one")),
        Rejected(Location(path, 2), "invalid UTF-8", "byte 1 is 0xff"),
    ]


def test_parquet_reads_a_folder_and_its_splits(tmp_path: Path) -> None:
    names = ["train-00001-of-00002", "train-00000-of-00002", "test", "more/train/0", "training"]
    for name in [*names, ".cache/train-0"]:
        parquet(tmp_path / f"{name}.parquet", table((name, "x")))

    def firsts(split: str) -> list[str]:
        given = {"kind": "parquet", "path": tmp_path, "split": split, **COLUMNS}
        return [first for first, _ in pairs(**given)]

    assert firsts("") == ["more/train/0", *sorted(names[:3] + names[4:])]
    assert firsts("train") == ["more/train/0", names[1], names[0]]
    with pytest.raises(DataError, match=r"is of the split 'dev'; the first is more/train/0\.parq"):
        firsts("dev")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: there is no file \*\.parquet in this folder"):
        read(kind="parquet", path=tmp_path / "empty", **COLUMNS)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["fr", "de"], "there is no column de; instead of 'de' there are: id, fr, en"),
        (["fr.x", "en"], "there is no column fr.x; instead of 'x' there are: no columns"),
        (["id", "en"], "the column id holds int64 and not text"),
    ],
)
def test_parquet_reports_missing_columns(
    tmp_path: Path, columns: list[str], complaint: str
) -> None:
    path = parquet(tmp_path / "a.parquet", table(("un", "one")))
    with pytest.raises(DataError, match=f"a.parquet: {complaint}"):
        read(kind="parquet", path=path, columns=columns, **FR_EN)


def test_damaged_parquet_is_reported(tmp_path: Path) -> None:
    path = Path(parquet(tmp_path / "a.parquet", table(*[("un", "one")] * 1000)))
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[:8] + bytes(200) + whole[208:], b"", b"a\tb\n"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet") as caught:
            read(kind="parquet", path=path, **COLUMNS)
        assert "\n" not in str(caught.value)


# ── po ───────────────────────────────────────────────────────────────────────────────────────────

CATALOGUE = r"""# French translation
#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: x\n"
"Content-Type: text/plain; charset=UTF-8\n"

#: a.py:1
msgid "Good morning"
msgstr "Bonjour"

#. to the translator
#, python-format
msgctxt "menu"
msgid ""
"Say \"%s\"\tand\n"
"C:\\new"
msgstr "Dire « %s »\n"
"et C:\\new"
#, fuzzy, c-format
#| msgid "before"
msgid "guessed"
msgstr "deviné"

msgid "later"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d fichier"
msgstr[1] "%d fichiers"

#, fuzzy
#~ msgid "gone"
#~ msgstr "parti"
msgid "last"
msgstr "dernier"
"""


def catalogue(tmp_path: Path, content: str | bytes) -> list[Line]:
    path = write(tmp_path / "fr.po", content)
    return read(kind="po", path=path, languages=["en", "fr"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_po_reads_a_catalog(tmp_path: Path, end: str) -> None:
    def at(line: int) -> Location:
        return Location(str(tmp_path / "fr.po"), line)

    assert catalogue(tmp_path, CATALOGUE.replace("\n", end)) == [
        Record(at(9), ("Good morning", "Bonjour")),
        Record(at(15), ('Say "%s"\tand\nC:\\new', "Dire « %s »\net C:\\new")),
        Rejected(at(22), "fuzzy", "'guessed'"),
        Rejected(at(25), "untranslated", "'later'"),
        Record(at(28), ("%d file", "%d fichier")),
        Record(at(28), ("%d files", "%d fichiers")),
        Record(at(36), ("last", "dernier")),
    ]


def test_po_assigns_a_single_form_to_the_plural(tmp_path: Path) -> None:
    content = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d ファイル"\n'
    (line,) = catalogue(tmp_path, content)
    assert isinstance(line, Record)
    assert line.texts == ("%d files", "%d ファイル")


@quickly
@given(
    st.lists(
        st.tuples(*[st.text(st.characters(codec="utf-8"), min_size=1)] * 2), min_size=1, max_size=5
    ),
    st.booleans(),
)
def test_po_restores_any_text(tmp_path: Path, texts: list[tuple[str, str]], blank: bool) -> None:
    def quoted(text: str) -> str:
        for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
            text = text.replace(character, escaped)
        return f'"{text}"'

    entries = [f"msgid {quoted(fr)}\nmsgstr {quoted(en)}\n" for fr, en in texts]
    lines = catalogue(tmp_path, ("\n" if blank else "").join(entries))
    assert [line.texts for line in lines if isinstance(line, Record)] == texts


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b'msgid "a"\nmsgstr "b', "not gettext"),
        (b'msgid "a"\nmsgid "b"\nmsgstr "c"', "not gettext"),
        (b'"goes on from nothing"', "not gettext"),
        (b"just some text\nand more", "not gettext"),
        (b'msgid "a\\q"\nmsgstr "b"', "not gettext"),
        (b'msgid "a"\nmsgstr "\xe9"', "invalid UTF-8"),
        (b'msgid "a"', "untranslated"),
    ],
)
def test_po_rejects_a_bad_entry_once(tmp_path: Path, bad: bytes, why: str) -> None:
    good = b'msgid "yes"\nmsgstr "oui"\n'
    first, rejected, last = catalogue(tmp_path, good + b"\n" + bad + b"\n\n" + good)
    assert isinstance(first, Record)
    assert isinstance(rejected, Rejected)
    assert isinstance(last, Record)
    assert rejected.reason == why


def test_po_refuses_another_charset(tmp_path: Path) -> None:
    content = CATALOGUE.replace("UTF-8", "ISO-8859-1").replace("version: x", "version: é")
    with pytest.raises(DataError, match=r"fr\.po: the catalog is in ISO-8859-1; convert it"):
        catalogue(tmp_path, content.encode("latin-1", errors="replace"))


def test_po_reads_a_folder(tmp_path: Path) -> None:
    for name in ("b", "a/c"):
        write(tmp_path / f"{name}.po", f'msgid "{name}"\nmsgstr "x"\n')
    write(tmp_path / "README", "no catalogue")
    found = pairs(kind="po", path=tmp_path, languages=["en", "fr"])
    assert found == [("a/c", "x"), ("b", "x")]


# ── text ─────────────────────────────────────────────────────────────────────────────────────────

TEXT = "one\n two\n\n \n\nthree\u2028\nfour"


def documents(path: Any, ending: str) -> list[str]:
    """Restore documents from their records."""
    found, open_one = [], ""
    for line in read(kind="text", path=path, documents=ending):
        assert isinstance(line, Record)
        open_one += line.texts[0]
        if line.ends_document:
            found.append(open_one)
            open_one = ""
    assert not open_one
    return found


def test_text_documents_end_at_file_line_or_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", TEXT)
    assert documents(path, "file") == [TEXT]
    assert documents(path, "line") == ["one", " two", "three\u2028", "four"]
    assert documents(path, "blank") == ["one\n two\n", "three\u2028\nfour"]


@quickly
@given(st.text(st.sampled_from("ab \n\u2028é"), max_size=60), st.integers(1, 9))
def test_text_is_restored_from_its_records(tmp_path: Path, content: str, chunk: int) -> None:
    path = write(tmp_path / "a.txt", content)
    kept = [line for line in content.split("\n") if line and not line.isspace()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "CHUNK", chunk)
        assert "".join(documents(path, "file")) == content
        assert documents(path, "line") == kept
        blank = "".join(documents(path, "blank"))
        assert [line for line in blank.split("\n") if line] == kept
        for (here,) in pairs(kind="text", path=path):
            assert len(here) <= chunk or "\n" not in here[:-1]
            assert "\u2028" not in here or "\n" not in here[:-1]


@quickly
@given(
    st.lists(st.text(st.sampled_from("ab \n\u2028é"), max_size=30), min_size=1, max_size=3),
    st.floats(0.05, 0.95),
)
def test_text_fraction_equals_python_slicing(
    tmp_path: Path, contents: list[str], share: float
) -> None:
    paths = [write(tmp_path / f"{n}.txt", content) for n, content in enumerate(contents)]
    whole = "".join(contents)
    cut = int(len(whole) * share)
    first, rest = (
        "".join(text for (text,) in pairs(kind="text", path=paths, fraction=part))
        for part in ([0, share], [share, 1])
    )
    assert (first, rest) == (whole[:cut], whole[cut:])


def test_text_fraction_ends_a_document_and_has_line_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"one\r\ntwo\nth\xffee\n")  # 4 + 4 + 6 characters
    assert read(kind="text", path=path, fraction=[0, 0.5]) == [
        Record(Location(path, 1), ("one\ntwo",))
    ]
    assert read(kind="text", path=path, fraction=[0.5, 1]) == [
        Rejected(Location(path, 3), "invalid UTF-8", "byte 3 is 0xff"),
        Record(Location(path, 2), ("\n",)),
    ]


@pytest.mark.parametrize("part", [[0.9, 0.1], [0, 1.5], [-0.1, 1], [0.5, 0.5], [0.5], "half"])
def test_invalid_text_fraction_is_refused(part: Any) -> None:
    with pytest.raises(ConfigError, match="fraction"):
        source(kind="text", path="a.txt", fraction=part)


def test_shakespeare_fractions_are_the_usual_split(shared_data: Path) -> None:
    path = shared_data / "tinyshakespeare" / "input.txt"
    data = path.read_text(encoding="utf-8")
    n = len(data)
    parts = [
        "".join(text for (text,) in pairs(kind="text", path=path, fraction=part))
        for part in ([0, 0.9], [0.9, 1])
    ]
    assert parts == [data[: int(n * 0.9)], data[int(n * 0.9) :]]
    assert [len(part) for part in parts] == [1_003_854, 111_540]


def test_text_records_have_locations_and_line_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "word\n" * 30_000)
    records = [line for line in read(kind="text", path=path) if isinstance(line, Record)]
    assert max(len(record.texts[0]) for record in records) <= 2**16
    assert [record.ends_document for record in records] == [False, False, True]
    assert sum(record.lines for record in records) == 30_000
    next_line = 1
    for record in records:
        assert record.location == Location(path, next_line)
        next_line += record.lines


def test_text_rejects_only_the_invalid_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"one\n\xff\r\ntwo\r\n")
    assert read(kind="text", path=path) == [
        Rejected(Location(path, 2), "invalid UTF-8", "byte 1 is 0xff"),
        Record(Location(path, 1), ("one\ntwo\n",)),
    ]


def test_text_reads_files_folders_and_patterns(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c/d.txt", "c/.hidden", "e.md", "[1].txt"):
        write(tmp_path / name, name)
    assert documents(tmp_path, "file") == ["[1].txt", "a.txt", "b.txt", "c/d.txt", "e.md"]
    assert documents(tmp_path / "*.txt", "file") == ["[1].txt", "a.txt", "b.txt"]
    assert documents(tmp_path / "**" / "d*", "file") == ["c/d.txt"]
    assert documents(tmp_path / "[1].txt", "file") == ["[1].txt"]
    assert documents([tmp_path / "e.md", tmp_path / "c"], "file") == ["e.md", "c/d.txt"]
    with pytest.raises(DataError, match=r"\*\.nothing: no file or folder matches this pattern"):
        read(kind="text", path=tmp_path / "*.nothing")


def test_text_pattern_relative_to_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "notes" / "a.txt", "a")
    monkeypatch.chdir(tmp_path)
    assert source(kind="text", path="notes/*.txt").files() == [Path("notes/a.txt")]


def test_real_text_is_restored_from_its_records(shared_data: Path) -> None:
    path = shared_data / "tinyshakespeare" / "input.txt"
    assert documents(path, "file") == [path.read_text(encoding="utf-8")]
    speeches = documents(path, "blank")
    assert speeches[0].startswith("First Citizen:\nBefore we proceed")
    assert len(speeches) > 7000


# ── grammar ──────────────────────────────────────────────────────────────────────────────────────


def test_grammar_yields_the_bundled_splits() -> None:
    sizes = {"train_size": 200, "dev_size": 20, "pronouns_size": 5}
    parts = {
        split: pairs(kind="grammar", split=split, **sizes) for split in ("train", "dev", "pronouns")
    }
    assert [len(each) for each in parts.values()] == [200, 20, 5]
    assert len(set().union(*parts.values())) == 225
    spec = source(kind="grammar", **sizes)
    assert spec.language_pair == ("fr", "en")
    assert next(spec.records()).location == Location("the bundled grammar", 1)


def test_grammar_refuses_impossible_sizes() -> None:
    with pytest.raises(ConfigError, match="train_size: input should be less than or equal to"):
        source(kind="grammar", train_size=10**9)


# ── hub ──────────────────────────────────────────────────────────────────────────────────────────


class Hub(ThreadingHTTPServer):
    """Plays huggingface.co on this machine: what it has, and what it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.cut = 0  # bytes that are promised and never sent

    def offer(self, name: str, content: Any) -> None:
        self.pages[f"/api/datasets/{name}/parquet"] = json.dumps(content).encode()


class _Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        page = self.server.pages.get(self.path)
        if page is None:
            return self.send_error(401)
        self.send_response(200)
        self.send_header("Content-Length", str(len(page) + self.server.cut))
        self.end_headers()
        self.wfile.write(page)
        return None

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    with Hub() as server:
        monkeypatch.setenv("REGARD_HUB", server.address)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        files = []
        for number in range(11):
            path = Path(parquet(tmp_path / "server" / f"{number}", table((f"un {number}", "one"))))
            files.append(f"{server.address}/{number}.parquet")
            server.pages[f"/{number}.parquet"] = path.read_bytes()
        server.offer("owner/set", {"default": {"train": files, "test": files[:1]}, "more": {}})
        yield server
        server.shutdown()
        thread.join()


def test_hub_downloads_once_and_reads_in_order(hub: Hub, tmp_path: Path) -> None:
    given = {"kind": "hub", "name": "owner/set", **COLUMNS}
    expected = [(f"un {number}", "one") for number in range(11)]
    assert pairs(**given) == expected
    assert len(hub.asked) == 12
    assert pairs(**given) == expected
    assert len(hub.asked) == 12
    files = source(**given).files()
    assert {file.parent for file in files} == {tmp_path / "cache/datasets/owner--set/default/train"}
    assert pairs(**given, split="test") == expected[:1]


def test_hub_continues_an_interrupted_download(hub: Hub, tmp_path: Path) -> None:
    given = {"kind": "hub", "name": "owner/set", **COLUMNS}
    page = hub.pages.pop("/7.parquet")
    with pytest.raises(DataError, match=r"/7\.parquet: the hub returns 401"):
        read(**given)
    hub.pages["/7.parquet"] = page
    hub.asked.clear()
    assert len(pairs(**given)) == 11
    assert hub.asked == [f"/{number}.parquet" for number in range(7, 11)]
    assert not list(tmp_path.rglob("*.partial"))


def test_hub_stores_no_truncated_file(hub: Hub, tmp_path: Path) -> None:
    given = {"kind": "hub", "name": "owner/set", "split": "test", **COLUMNS}
    assert source(**given).files()
    (tmp_path / "cache/datasets/owner--set/default/test/00000.parquet").unlink()
    hub.cut = 5
    with pytest.raises(DataError, match=r"/0\.parquet: truncated, 5 bytes are missing; try again"):
        read(**given)
    assert not list((tmp_path / "cache").rglob("*.p*"))


def test_hub_without_network_suggests_parquet(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"kind": "hub", "name": "owner/set", **COLUMNS}
    kept = pairs(**given, split="test")
    monkeypatch.setenv("REGARD_HUB", "http://127.0.0.1:9")
    with pytest.raises(DataError, match=r"cannot be reached .*; .* with kind: parquet instead"):
        read(**given)
    assert pairs(**given, split="test") == kept
    assert hub.asked


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"split": "dev"}, "there is no split 'dev' in this dataset; .* one of: train, test"),
        ({"subset": "fr"}, "there is no subset 'fr' in this dataset; .* one of: default, more"),
        ({"name": "owner/other"}, "the hub returns 401 .*; check the name"),
        ({"name": "owner/odd"}, "the response is not a list of Parquet files"),
        ({"name": "owner/bad"}, "file:///etc/passwd: the hub lists a file on another server"),
    ],
)
def test_hub_reports_missing_datasets_and_splits(
    hub: Hub, given: dict[str, str], complaint: str
) -> None:
    hub.offer("owner/odd", ["a.parquet"])
    hub.offer("owner/bad", {"default": {"train": ["file:///etc/passwd"]}})
    with pytest.raises(DataError, match=complaint):
        read(**({"kind": "hub", "name": "owner/set", **COLUMNS} | given))


def test_hub_reports_an_unwritable_cache(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_CACHE", write(tmp_path / "a file", "in the way"))
    with pytest.raises(OutputError, match=r"cannot be written .* set REGARD_CACHE to another"):
        read(kind="hub", name="owner/set", **COLUMNS)
    assert hub.asked


@pytest.mark.parametrize("key", ["name", "subset", "split"])
@pytest.mark.parametrize("outside", ["..", "../../etc", "a/../b", "a/b/c", "", "a b"])
def test_hub_names_cannot_leave_the_cache(key: str, outside: str) -> None:
    with pytest.raises(ConfigError, match=key):
        source(**({"kind": "hub", "name": "owner/set", **COLUMNS} | {key: outside}))
