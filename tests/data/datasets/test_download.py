"""Downloads from a server on this machine that cuts, redirects, refuses and changes files."""

import gzip
import hashlib
import threading
from pathlib import Path

import pytest
from tests.data.datasets.server import FileServer

from regard.config import validate
from regard.data.datasets import download
from regard.data.datasets.catalog import DataFile, Dataset
from regard.data.datasets.fetch import fetch
from regard.data.datasets.reports import SILENT
from regard.errors import ConfigError, DataError, OutputError

TEXT = b"".join(b"le chat %d\tthe cat %d\n" % (n, n * n) for n in range(40_000))


FRENCH = b"".join(line.split(b"\t")[0] + b"\r\n" for line in TEXT.splitlines())
ENGLISH = b"".join(line.split(b"\t")[1] + b"\n" for line in TEXT.splitlines())


def dataset(server: FileServer, path: str = "train.tsv", url: str = "/train.tsv") -> Dataset:
    """Return a data set of one file with TEXT as its text; one that is pasted if url is `/a /b`."""
    addresses = [f"{server.address}{page}" for page in url.split()]
    file = {
        "path": path,
        "bytes": len(TEXT),
        "sha256": hashlib.sha256(TEXT).hexdigest(),
        **({"paste": addresses} if len(addresses) > 1 else {"url": addresses[0]}),
    }
    about = {"title": "t", "task": "t", "license": "l", "citation": "c", "homepage": "https://h"}
    return validate(Dataset, {"name": "cats", **about, "files": [file], "splits": {}}, "catalog")


def get(server: FileServer, **given: str) -> bytes:
    """Fetch the data set; return the content of its file, and check that nothing else is left."""
    cats = dataset(server, **given)
    folder = fetch(cats, cats.files)
    assert [file.name for file in folder.iterdir()] == [cats.files[0].path]
    return (folder / cats.files[0].path).read_bytes()


def left_in(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_a_file_is_downloaded_once(server: FileServer, tmp_path: Path) -> None:
    server.pages["/train.tsv"] = TEXT
    assert get(server) == TEXT
    assert get(server) == TEXT
    assert server.asked == [("/train.tsv", None)]
    assert (tmp_path / "cache/data/cats/train.tsv").is_file()


def test_files_are_packed_and_unpacked_as_their_names_ask(server: FileServer) -> None:
    packed = gzip.compress(TEXT, mtime=7)
    server.pages |= {"/train.tsv": TEXT, "/train.tsv.gz": packed}
    assert gzip.decompress(get(server, path="a.tsv.gz")) == TEXT
    (Path(fetch(dataset(server, "a.tsv.gz"), ())) / "a.tsv.gz").unlink()
    assert get(server, url="/train.tsv.gz") == TEXT
    (Path(fetch(dataset(server), ())) / "train.tsv").unlink()
    assert get(server, path="b.tsv.gz", url="/train.tsv.gz") == packed


def test_a_cut_download_is_resumed_in_the_same_call(server: FileServer) -> None:
    server.pages["/train.tsv"] = TEXT
    server.cuts = [1000, 20_000]
    assert get(server) == TEXT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000-", "bytes=21000-"]


def test_a_download_is_resumed_by_the_next_call(server: FileServer, tmp_path: Path) -> None:
    server.pages["/train.tsv"] = TEXT
    server.cuts = [5000] + [0] * download.ATTEMPTS
    with pytest.raises(DataError, match=r"the connection was cut after 5,000 of [\d,]+ bytes"):
        get(server)
    assert left_in(tmp_path) == [".train.tsv.partial"]
    server.asked.clear()
    assert get(server) == TEXT
    assert server.asked == [("/train.tsv", "bytes=5000-")]


def test_a_server_without_ranges_sends_the_file_again(server: FileServer) -> None:
    server.pages["/train.tsv"] = TEXT
    server.ranges, server.cuts = False, [1000, 3000]
    assert get(server) == TEXT


@pytest.mark.parametrize("rest", [b"another file", TEXT + b"and more"], ids=["other", "longer"])
def test_a_part_of_another_file_is_not_used(
    server: FileServer, tmp_path: Path, rest: bytes
) -> None:
    server.pages["/train.tsv"] = TEXT
    partial = tmp_path / "cache/data/cats/.train.tsv.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(rest)
    assert get(server) == TEXT


@pytest.mark.parametrize(
    "page",
    [TEXT.replace(b"7", b"8"), TEXT[:-9], gzip.compress(TEXT)[:-20], b"<html>sign in</html>"],
    ids=["changed", "shorter", "damaged gzip", "web page"],
)
def test_a_wrong_checksum_leaves_nothing(server: FileServer, tmp_path: Path, page: bytes) -> None:
    server.pages["/train.tsv"] = page
    with pytest.raises(DataError, match=r"downloaded \(it has another checksum than the"):
        get(server)
    assert left_in(tmp_path) == []


def test_a_file_of_any_size_is_not_downloaded(server: FileServer) -> None:
    server.pages["/train.tsv"] = bytes(10 * len(TEXT))
    with pytest.raises(DataError, match=f"larger than the {len(TEXT):,} bytes of the catalog"):
        get(server)
    server.pages["/train.tsv"] = gzip.compress(bytes(10 * len(TEXT)))
    with pytest.raises(DataError, match=f"checksum than the catalog, more than {len(TEXT):,}"):
        get(server)
    server.pages["/train.tsv"] = TEXT
    assert get(server) == TEXT


def test_redirects_are_followed_but_not_to_plain_http(server: FileServer) -> None:
    server.pages["/train.tsv"] = TEXT
    server.redirects["/old"] = f"{server.address}/train.tsv"
    assert get(server, url="/old") == TEXT
    server.redirects["/plain"] = "http://example.org/train.tsv"
    with pytest.raises(DataError, match=r"redirects to http://example\.org/\S+ which is not https"):
        get(server, path="b.tsv", url="/plain")
    server.redirects["/loop"] = f"{server.address}/loop"
    with pytest.raises(DataError, match="cannot be downloaded"):
        get(server, path="c.tsv", url="/loop")


def test_an_address_must_be_encrypted() -> None:
    given = {"path": "a", "bytes": 1, "sha256": "0", "url": "http://example.org/a"}
    with pytest.raises(ConfigError, match="url: an address begins with https://"):
        validate(DataFile, given, "catalog")


@pytest.mark.parametrize(
    "addresses",
    [{"paste": ["https://a"]}, {"paste": ["https://a", "https://b"], "url": "https://c"}],
    ids=["one", "both"],
)
def test_at_least_two_files_are_pasted(addresses: dict[str, object]) -> None:
    given = {"path": "a", "bytes": 1, "sha256": "0"}
    with pytest.raises(ConfigError, match="one url, or two addresses or more to paste"):
        validate(DataFile, given | addresses, "catalog")
    with pytest.raises(ConfigError, match="paste: an address begins with https://"):
        validate(DataFile, given | {"paste": ["https://a", "http://example.org"]}, "catalog")


@pytest.mark.parametrize("path", ["train.tsv", "train.tsv.gz"])
def test_the_lines_of_two_files_are_pasted(server: FileServer, path: str) -> None:
    server.pages |= {"/fr": FRENCH, "/en": gzip.compress(ENGLISH)}
    pasted = get(server, path=path, url="/fr /en")
    assert (gzip.decompress(pasted) if path.endswith(".gz") else pasted) == TEXT


def test_pasted_files_are_resumed_where_the_connection_ended(
    server: FileServer, tmp_path: Path
) -> None:
    server.pages |= {"/fr": FRENCH, "/en": ENGLISH}
    server.cuts = [len(FRENCH), 5000] + [0] * download.ATTEMPTS
    with pytest.raises(DataError, match=r"here and http://\S+/en cannot be downloaded \(the conn"):
        get(server, url="/fr /en")
    assert left_in(tmp_path) == [".train.tsv.1.partial", ".train.tsv.2.partial"]
    server.asked.clear()
    assert get(server, url="/fr /en") == TEXT
    assert server.asked == [("/fr", f"bytes={len(FRENCH)}-"), ("/en", "bytes=5000-")]


def test_a_part_of_another_file_is_not_pasted(server: FileServer, tmp_path: Path) -> None:
    server.pages |= {"/fr": FRENCH, "/en": ENGLISH}
    other = tmp_path / "cache/data/cats/.train.tsv.2.partial"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"another file\n")
    assert get(server, url="/fr /en") == TEXT


@pytest.mark.parametrize(
    ("english", "why"),
    [
        (ENGLISH.replace(b"7", b"8"), "pasted, they have another checksum than the catalog"),
        (ENGLISH[: ENGLISH.rindex(b"the")], "they have different numbers of lines"),
        (ENGLISH + b"one more\n", "they have different numbers of lines"),
        (gzip.compress(ENGLISH)[:-20], "one of them is a damaged gzip"),
        (gzip.compress(b"\n" * 10 * len(TEXT)), "they have different numbers of lines"),
    ],
    ids=["changed", "shorter", "longer", "damaged gzip", "many lines"],
)
def test_files_that_do_not_fit_are_not_pasted(
    server: FileServer, tmp_path: Path, english: bytes, why: str
) -> None:
    server.pages |= {"/fr": FRENCH, "/en": english}
    with pytest.raises(
        DataError, match=rf"/fr and \S+/en cannot be downloaded \({why}.*train\.tsv"
    ):
        get(server, url="/fr /en")
    assert left_in(tmp_path) == []


def test_not_more_is_pasted_than_the_catalog_says(server: FileServer, tmp_path: Path) -> None:
    page = gzip.compress(bytes(10 * len(TEXT)))
    server.pages |= {"/fr": page, "/en": page}
    with pytest.raises(DataError, match=f"checksum than the catalog, more than {len(TEXT):,}"):
        get(server, url="/fr /en")
    assert left_in(tmp_path) == []


def test_a_busy_server_is_asked_again_and_a_missing_page_is_not(server: FileServer) -> None:
    server.pages["/train.tsv"] = TEXT
    server.statuses = [503, 429]
    assert get(server) == TEXT
    assert len(server.asked) == 3
    with pytest.raises(DataError, match=r"the server returns 404 \(Not Found\)"):
        get(server, path="b.tsv", url="/nowhere")
    assert len(server.asked) == 4


def test_offline_the_sentence_says_what_to_put_where(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cats = dataset(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError) as error:
        fetch(cats, cats.files, SILENT, "data.train: ")
    assert str(error.value) == (
        f"data.train: data set cats is not here and {server.address}/train.tsv cannot be "
        f"downloaded ([Errno 111] Connection refused): try again, or put train.tsv into "
        f"{tmp_path}/cache/data/cats (or into cats in a folder of REGARD_DATA)."
    )
    monkeypatch.setenv("REGARD_DATA", f"{tmp_path}/one:{tmp_path}/two")
    with pytest.raises(DataError, match=r"into \S+/one/cats \(or another folder of REGARD_DATA\)"):
        fetch(cats, cats.files)
    (tmp_path / "two/cats").mkdir(parents=True)
    (tmp_path / "two/cats/train.tsv").write_bytes(TEXT)
    assert fetch(cats, cats.files) == tmp_path / "two/cats"


def test_without_space_nothing_is_left(server: FileServer, tmp_path: Path) -> None:
    server.pages["/train.tsv"] = TEXT
    partial = tmp_path / "cache/data/cats/.train.tsv.partial"
    partial.parent.mkdir(parents=True)
    partial.symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"\(No space left on device\); free some space, or set"):
        get(server)
    assert left_in(tmp_path) == []


def test_a_cache_that_cannot_be_written_is_named(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(OutputError, match=r"cannot be written .*another folder with REGARD_CACHE"):
        get(server)


def test_one_of_two_downloads_and_the_other_waits(server: FileServer) -> None:
    server.pages["/train.tsv"] = TEXT
    cats = dataset(server)
    server.delay.clear()
    said: list[str] = []

    class Waiting:
        bar = staticmethod(SILENT.bar)

        def say(self, message: str) -> None:
            said.append(message)
            server.delay.set()

    threads = [threading.Thread(target=fetch, args=(cats, cats.files, Waiting())) for _ in "12"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.asked) == 1
    assert len(said) == 1
    assert "another process is writing it; waiting until it ends" in said[0]
    assert get(server) == TEXT


def test_a_changed_file_is_refused_wherever_it_is(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cats = dataset(server)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats/train.tsv").write_bytes(TEXT[1:])
    with pytest.raises(
        DataError, match=r"train\.tsv: is not the file of data set cats .*: replace"
    ):
        fetch(cats, cats.files)
    (tmp_path / "cats/train.tsv").write_bytes(TEXT)
    assert fetch(cats, cats.files) == tmp_path / "cats"
    assert server.asked == []
