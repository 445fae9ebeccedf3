"""Data as newcomers bring them: labels, columns, encodings and lengths that look wrong."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from regard import load_classifier
from regard.predictors.classifier_evaluation import labeled_lines

from .fork_server import Finished, ForkServer

WORDS = {"positive": ["good", "fine", "great"], "negative": ["bad", "dull", "poor"]}
MODEL = {"dim": 16, "heads": 2, "ffn_dim": 32, "layers": 1, "dropout": 0.0, "max_length": 32}
TRAINING = {"steps": 1, "batch_tokens": 500}

Train = Callable[..., Finished]


def reviews(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Return different texts, each with its label."""
    rng, labels = random.Random(seed), list(WORDS)
    return [
        (f"film {n} was {rng.choice(WORDS[labels[n % 2]])} in the end", labels[n % 2])
        for n in range(count)
    ]


def lines(rows: Sequence[Sequence[str]], separator: str = "\t") -> str:
    return "".join(separator.join(row) + "\n" for row in rows)


@pytest.fixture
def train(forked: ForkServer, tmp_path: Path) -> Train:
    """Train a classifier for one step on a file with this content; other sections as given."""

    def run(
        content: str | bytes,
        *,
        command: str = "train",
        sections: Mapping[str, Mapping[str, Any]] | None = None,
        **source: Any,
    ) -> Finished:
        path = tmp_path / "data.tsv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        recipe: dict[str, Any] = {
            "task": {"kind": "classification"},
            "data": {
                "train": {"kind": "labeled", "path": str(path), **source},
                "prepared": str(tmp_path / "prepared"),
            },
            "tokenizer": {"kind": "word", "vocabulary": 900},
            "model": {"kind": "classifier", **MODEL},
            "training": TRAINING,
        }
        for section, changes in (sections or {}).items():
            recipe[section].update(changes)
        (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
        run = ["--run", tmp_path / "run", "--overwrite"] if command == "train" else []
        return forked(command, tmp_path / "recipe.yaml", *run)

    return run


def warnings(result: Finished) -> list[str]:
    return [line for line in result.err.splitlines() if line.startswith("Warning:")]


def refusal(result: Finished) -> str:
    """Return the sentence of an error, which is the last line."""
    assert result.code == 1, result.err
    last = result.err.splitlines()[-1]
    assert last.startswith("regard: "), result.err
    return last


def num_kept(folder: Path) -> int:
    """Return the number of lines that the ledger of the run counts as kept."""
    ledger = json.loads((folder / "run" / "ledger.json").read_text())
    return sum(tally["kept"] for sources in ledger.values() for tally in sources.values())


@pytest.mark.parametrize("command", ["train", "check"])
def test_labels_are_counted_and_doubtful_ones_named(train: Train, command: str) -> None:
    rows = [("review", "sentiment"), *reviews(60)]
    rows += [(f"film {n} again", label) for n, label in enumerate(["Negative", "postive", "pos "])]
    result = train(lines(rows), command=command)
    assert result.code == 0, result.err
    assert "6 labels in data.train: negative 30, positive 30, " in result.err
    header, case, letter, few = warnings(result)
    assert "data.tsv, line 1: 'review | sentiment' looks like a header" in header
    assert "header: true" in header
    assert "the labels 'negative' (30) and 'Negative' (1) differ only by case or spaces" in case
    assert "the labels 'positive' (30) and 'postive' (1) differ only by one letter" in letter
    assert "fewer than 10 training texts: 'Negative' (1), 'pos' (1), 'postive' (1), 'sent" in few


def test_clean_labels_have_no_warning(train: Train) -> None:
    result = train(lines([("review", "sentiment"), *reviews(60)]), header=True)
    assert result.code == 0, result.err
    assert "2 labels in data.train: negative 30, positive 30." in result.err
    assert warnings(result) == []
    numbered = [(text, f"class{label == 'positive':d}") for text, label in reviews(60)]
    assert warnings(train(lines(numbered))) == []


def test_columns_by_name(train: Train) -> None:
    rows = [(f"t{n}", label, text) for n, (text, label) in enumerate(reviews(60))]
    table = lines([("id", "stars", "review"), *rows])
    result = train(table, header=True, columns=["review", "stars"])
    assert result.code == 0, result.err
    assert "2 labels in data.train: negative 30, positive 30." in result.err
    message = refusal(train(table, header=True, columns=["text", "stars"]))
    assert "there is no column 'text'; the columns are 0 'id', 1 'stars', 2 'review'" in message
    message = refusal(train(table, columns=["review", "stars"]))
    assert "columns: 'review' is a name, which needs header: true" in message


def test_swapped_columns_are_an_error_with_the_fix(train: Train) -> None:
    long = [(text + " and so on" * 100, label) for text, label in reviews(60)]
    message = refusal(train(lines([(label, text) for text, label in long])))
    assert "60 texts have 60 different labels, such as 'film " in message
    assert "line 1 has the columns 0 'positive' (read as text), 1 'film 0 was" in message.lower()
    assert "columns 0 and 1 look swapped: set columns: [1, 0]" in message
    assert len(message) < 700


def test_an_id_column_is_named(train: Train) -> None:
    rows = [(f"tt{n:04}", text, label) for n, (text, label) in enumerate(reviews(60))]
    message = refusal(train(lines(rows)))
    assert "0 'tt0000' (read as text), 1 'film 0 was" in message
    assert "column 0 looks like an id: set columns: [1, 2]" in message
    result = train(lines(rows), columns=[0, 2])
    assert result.code == 0, result.err
    assert "column 0 is read as text; column 0 looks like an id: set columns: [1, 2]" in result.err


def test_csv_read_as_tsv_is_named(train: Train) -> None:
    message = refusal(train(lines(reviews(60), ",")))
    assert "this looks like CSV: use kind: labeled-csv" in message
    assert "0 'film 0 was" in message
    result = train(lines(reviews(60), ","), kind="labeled-csv")
    assert result.code == 0, result.err


def test_csv_has_quotes_and_newlines(train: Train, tmp_path: Path) -> None:
    rows = [(f'"{text}, he ""said""\nin two lines"', label) for text, label in reviews(60)]
    rows.insert(1, ("no label",))  # type: ignore[arg-type]
    result = train(
        "review;stars\n" + lines(rows, ";"),
        kind="labeled-csv",
        header=True,
        columns=["review", "stars"],
        separator=";",
    )
    assert result.code == 0, result.err
    assert "2 labels in data.train: negative 30, positive 30." in result.err
    ((_, tally),) = json.loads((tmp_path / "run" / "ledger.json").read_text())["train"].items()
    assert tally["dropped"]["wrong columns"]["first"][0]["line"] == 4
    message = refusal(train('text,label\n"fine,positive\n', kind="labeled-csv"))
    assert "data.tsv, line 2: the record that starts here is not CSV" in message


@pytest.mark.parametrize(
    ("encoding", "name", "setting"),
    [
        ("latin-1", "Latin-1", "latin-1"),
        ("cp1252", "Windows-1252", "cp1252"),
        ("utf-16", "UTF-16", "utf-16"),
        ("utf-16-le", "UTF-16 (little-endian)", "utf-16-le"),
    ],
)
def test_encodings_are_named_with_the_command_that_converts(
    train: Train, tmp_path: Path, encoding: str, name: str, setting: str
) -> None:
    quoted = " – ‘déjà vu’" if encoding != "latin-1" else " déjà vu"
    rows = [(text + quoted * (n % 20 == 7), label) for n, (text, label) in enumerate(reviews(60))]
    content = lines(rows).encode(encoding)
    message = refusal(train(content))
    iconv = {"Latin-1": "ISO-8859-1", "UTF-16 (little-endian)": "UTF-16LE"}.get(name, name.upper())
    assert name in message
    assert f"iconv -f {iconv} -t UTF-8 " in message
    assert f"encoding: {setting}" in message
    result = train(content, encoding=setting)
    assert result.code == 0, result.err
    assert num_kept(tmp_path) == 60
    assert "'klingon' is no encoding" in refusal(train(content, encoding="klingon"))


def test_running_text_in_latin_1_is_an_error(forked: ForkServer, tmp_path: Path) -> None:
    text = ["plain words all over\n"] * 200 + ["le caf\xe9 est ferm\xe9\n"] * 5
    (tmp_path / "book.txt").write_text("".join(text), "latin-1")
    recipe = {
        "task": "language-model",
        "data": {
            "train": {"kind": "text", "path": str(tmp_path / "book.txt"), "documents": "line"},
            "prepared": str(tmp_path / "prepared"),
        },
        "tokenizer": {"vocabulary": 300, "spaces": "keep"},
        "model": {"kind": "language-model", **MODEL},
        "training": TRAINING,
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    message = refusal(forked("train", tmp_path / "recipe.yaml", "--run", tmp_path / "run"))
    assert "book.txt, line 201: byte 7 is 0xe9: the file is not UTF-8 and looks like L" in message
    assert "iconv -f ISO-8859-1 -t UTF-8" in message


def test_windows_1252_decoded_as_latin_1_is_repaired_when_asked(
    train: Train, tmp_path: Path
) -> None:
    rows = [(text + " it\x92s" * (n == 7), label) for n, (text, label) in enumerate(reviews(60))]
    result = train(lines(rows))
    assert result.code == 0, result.err
    (warning,) = warnings(result)
    assert "1 lines for train are dropped for characters of Windows-1252" in warning
    assert "data.filters.fix_encoding: true" in warning
    result = train(lines(rows), sections={"data": {"filters": {"fix_encoding": True}}})
    assert warnings(result) == []
    assert num_kept(tmp_path) == 60
    run = load_classifier(tmp_path / "run")
    (tmp_path / "new.tsv").write_text("it\x92s dull\tnegative\n")
    assert [record.texts for record in labeled_lines(run, tmp_path / "new.tsv")] == [("it’s dull",)]
    every = [(f"{text} it\x92s", label) for text, label in reviews(60)]
    assert "change data.filters.fix_encoding or " in refusal(train(lines(every)))


def test_a_pair_table_with_a_header_is_named(forked: ForkServer, tmp_path: Path) -> None:
    pairs = "French\tEnglish\n" + "".join(f"le chat {i}\tthe cat {i}\n" for i in range(60))
    (tmp_path / "pairs.tsv").write_text(pairs)
    recipe = {
        "data": {
            "train": {
                "kind": "tsv",
                "path": str(tmp_path / "pairs.tsv"),
                "languages": ["fr", "en"],
            },
            "prepared": str(tmp_path / "prepared"),
        },
        "tokenizer": {"vocabulary": 300},
        "model": {"kind": "encoder-decoder", **MODEL},
        "training": TRAINING,
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    result = forked("train", tmp_path / "recipe.yaml", "--run", tmp_path / "run")
    assert result.code == 0, result.err
    assert "pairs.tsv, line 1: 'French | English' looks like a header" in warnings(result)[0]
    named = ["data.train.header=true", "data.train.columns=[French, English]"]
    again = forked("train", tmp_path / "recipe.yaml", *named, "--run", tmp_path / "run2")
    assert again.code == 0, again.err
    assert warnings(again) == []


LONG = [
    (text + " and so on" * (20 if n % 3 == 2 else 0), label)
    for n, (text, label) in enumerate(reviews(60))
]


def test_too_many_long_texts_name_the_length_that_keeps_them(train: Train) -> None:
    result = train(lines(LONG))
    message = refusal(result)
    assert "most (20) for over the limit" in message
    assert "model.max_length: 128 keeps all of them" in message
    assert "takes 16.0 times the time and memory of one with 32" in message
    assert "task.truncate: head" in message
    ledger = " ".join(result.err.split())
    assert ledger.startswith("split source read kept dropped train")
    assert "over the limit, first line" in ledger.split("regard:")[0]
    assert train(lines(LONG), sections={"model": {"max_length": 128}}).code == 0


@pytest.mark.parametrize("keep", ["head", "tail", "both"])
def test_classifiers_cut_long_texts(
    train: Train, forked: ForkServer, tmp_path: Path, keep: str
) -> None:
    result = train(lines(LONG), sections={"task": {"truncate": keep}})
    assert result.code == 0, result.err
    assert "truncated" in result.err
    ledger = json.loads((tmp_path / "run" / "ledger.json").read_text())
    tallies = [tally for sources in ledger.values() for tally in sources.values()]
    assert sum(tally["truncated"] for tally in tallies) == 20
    assert num_kept(tmp_path) == 60
    labeled = forked("classify", tmp_path / "run", "--text", LONG[2][0])
    assert labeled.code == 0, labeled.err


@pytest.fixture(scope="module")
def trained(forked: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run folder that was trained on CSV in Windows-1252 with a header."""
    folder = tmp_path_factory.mktemp("as-trained")
    recipe = {
        "task": "classification",
        "data": {
            "train": {
                "kind": "labeled-csv",
                "path": str(folder / "data.csv"),
                "separator": ";",
                "header": True,
                "columns": ["avis", "note"],
                "encoding": "cp1252",
            },
            "prepared": str(folder / "prepared"),
        },
        "tokenizer": {"kind": "word", "vocabulary": 900},
        "model": {"kind": "classifier", **MODEL},
        "training": TRAINING,
    }
    (folder / "data.csv").write_text(table_like_training(60), "cp1252")
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    result = forked("train", folder / "recipe.yaml", "--run", folder / "run")
    assert result.code == 0, result.err
    return folder / "run"


def table_like_training(count: int) -> str:
    rows = [(f"{n}", label, f'"{text}; déjà"') for n, (text, label) in enumerate(reviews(count))]
    return lines([("id", "note", "avis"), *rows], ";")


def test_evaluate_heads_and_classify_read_a_file_as_in_training(
    forked: ForkServer, trained: Path, tmp_path: Path
) -> None:
    test = tmp_path / "test.csv"
    test.write_text(table_like_training(12), "cp1252")
    evaluated = forked("evaluate", trained, test)
    assert evaluated.code == 0, evaluated.err
    assert b"12 texts" in evaluated.out
    heads = forked("heads", trained, test, "-o", tmp_path / "heads")
    assert heads.code == 0, heads.err
    labeled = forked("classify", trained, test)
    assert labeled.code == 0, labeled.err
    assert len(labeled.out.splitlines()) == 12
    lone = tmp_path / "lone.txt"
    lone.write_text("déjà vu; bien\n\n", "cp1252")
    assert len(forked("classify", trained, lone).out.splitlines()) == 2


def test_source_changes_how_a_file_is_read(
    forked: ForkServer, trained: Path, tmp_path: Path
) -> None:
    test = tmp_path / "test.tsv"
    test.write_text(lines(reviews(12)))
    message = refusal(forked("evaluate", trained, test))
    assert "there is no column 'avis'" in message
    assert "there are tabs between the columns" in message
    told = ("--source", "kind=labeled")
    evaluated = forked("evaluate", trained, test, *told)
    assert evaluated.code == 0, evaluated.err
    assert len(forked("classify", trained, test, *told).out.splitlines()) == 12
    assert forked("heads", trained, test, *told, "-o", tmp_path / "heads").code == 0
    narrow = forked("evaluate", trained, test, *told, "--source", "columns=[0,2]")
    assert "fix the line, or correct how the file is read with --source" in refusal(narrow)
    assert "(now kind=labeled, columns=[0, 2])" in narrow.err
    assert "--source is for a FILE" in refusal(forked("classify", trained, *told))


def test_translators_are_evaluated_on_the_columns_of_their_training(
    forked: ForkServer, tmp_path: Path
) -> None:
    rows = [(f"{n}", f"the cat {n}", f"le chat {n}") for n in range(60)]
    (tmp_path / "pairs.tsv").write_text(lines([("id", "en", "fr"), *rows]))
    recipe = {
        "data": {
            "train": {
                "kind": "tsv",
                "path": f"{tmp_path}/pairs.tsv",
                "languages": ["fr", "en"],
                "header": True,
                "columns": ["fr", "en"],
            },
            "directions": ["fr-en"],
            "prepared": str(tmp_path / "prepared"),
        },
        "tokenizer": {"vocabulary": 300},
        "model": {"kind": "encoder-decoder", **MODEL},
        "training": TRAINING,
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    trained = forked("train", tmp_path / "recipe.yaml", "--run", tmp_path / "run")
    assert trained.code == 0, trained.err
    evaluated = forked("evaluate", tmp_path / "run", tmp_path / "pairs.tsv")
    assert b"60 pairs" in evaluated.out, evaluated.err
    (tmp_path / "plain.tsv").write_text("le chat 1\tthe cat 1\n")
    told = ("--source", "header=false", "--source", "columns=[0,1]")
    evaluated = forked("evaluate", tmp_path / "run", tmp_path / "plain.tsv", *told)
    assert b"1 pairs" in evaluated.out, evaluated.err
