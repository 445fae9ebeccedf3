"""regard init: recognize a user's files, write a recipe that validates, and train from it."""

import gzip
import json
from pathlib import Path

import pytest

from regard.config import read_yaml
from regard.data.bundled import corpus
from regard.training.recipe import read_recipe

from .fork_server import Finished, ForkServer

PAIRS = corpus(train=300, dev=20, pronouns=0).train
REVIEWS = [(f"review {n}: the film was {'good' if n % 3 else 'bad'}", n % 3 > 0) for n in range(90)]


def write(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    return path


@pytest.fixture
def init(forked: ForkServer, tmp_path: Path):
    """Run `regard init ARGUMENTS` without the check, and return it with the recipe's content."""

    def run(*arguments: object, check: bool = False) -> tuple[Finished, dict]:
        recipe = tmp_path / "recipe.yaml"
        options = ["-o", recipe, *([] if check else ["--no-check"])]
        done = forked("init", *arguments, *options)
        if done.code == 0:
            read_recipe(recipe)
        return done, read_yaml(recipe) if recipe.exists() else {}

    return run


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    lines = (f"{n}\t{pair.french}\t{pair.english}" for n, pair in enumerate(PAIRS))
    return write(tmp_path / "my.tsv", *lines)


def test_a_table_of_pairs_with_the_check(init, pairs: Path, tmp_path: Path) -> None:
    done, recipe = init("translation", pairs, check=True)
    out = done.out.decode()
    assert done.code == 0, done.err
    assert (
        f"{pairs}: tab-separated, no header, 300 lines; column 1 is French, column 2 is English; "
        f"column 0 is an id, and is not used." in out
    )
    assert f"The recipe is {tmp_path / 'recipe.yaml'}." in out
    assert "✓  the tokenizer knows the text" in out
    assert out.endswith(f"Next: regard train {tmp_path / 'recipe.yaml'}\n")
    assert recipe["data"]["train"] == {
        "kind": "tsv",
        "path": str(pairs),
        "columns": [1, 2],
        "languages": ["fr", "en"],
    }
    assert recipe["data"]["directions"] == ["fr-en"]
    assert recipe["data"]["dev_size"] == 15
    assert recipe["model"]["size"] == "tiny"
    assert recipe["training"]["budget"] == "20min"


def test_training_from_the_written_recipe(init, forked: ForkServer, pairs, tmp_path) -> None:
    init("translation", pairs)
    steps = ("training.steps=3", "training.evaluation.limit=2", "data.dev_size=2")
    recipe, run = tmp_path / "recipe.yaml", tmp_path / "run"
    done = forked("train", recipe, *steps, f"data.prepared={tmp_path}/p", "--run", run)
    assert done.code == 0, done.err
    assert (run / "model.json").exists()


def test_every_value_that_may_be_changed_has_a_comment(init, pairs: Path, tmp_path: Path) -> None:
    init("translation", pairs)
    lines = (tmp_path / "recipe.yaml").read_text().splitlines()
    bare = {line.split(":")[0].strip() for line in lines if "#" not in line}
    assert bare == {"task", "data", "train", "kind", "path", "tokenizer", "model", "training"}
    assert all(len(line) <= 120 for line in lines if "path:" not in line)


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        (
            "a.csv",
            lambda pair: f'"{pair.english}","{pair.french}"',
            {"kind": "csv", "columns": [0, 1], "languages": ["en", "fr"]},
        ),
        (
            "a.txt",  # by its content, not by its name
            lambda pair: json.dumps({"translation": {"fr": pair.french, "en": pair.english}}),
            {"kind": "jsonl", "keys": ["translation.fr", "translation.en"]},
        ),
        (
            "fr.po",
            lambda pair: f'msgid "{pair.english}"\nmsgstr "{pair.french}"\n',
            {"kind": "po", "languages": ["en", "fr"]},
        ),
    ],
)
def test_formats_of_pairs(init, tmp_path: Path, name: str, content, settings: dict) -> None:
    path = write(tmp_path / name, *map(content, PAIRS[:60]))
    done, recipe = init("translation", path)
    assert done.code == 0, done.err
    assert recipe["data"]["train"].items() >= settings.items()


def test_two_parallel_files_with_dev_and_test(init, tmp_path: Path) -> None:
    files = {}
    for split in ("train", "dev", "test"):
        for language in ("french", "english"):
            texts = (getattr(pair, language) for pair in PAIRS[:50])
            files[split, language] = write(tmp_path / f"{split}.{language}", *texts)
    first, second = files["train", "french"], files["train", "english"]
    options = [
        part
        for (split, _), path in files.items()
        if split != "train"
        for part in (f"--{split}", path)
    ]
    done, recipe = init("translation", first, second, *options)
    assert done.code == 0, done.err
    assert recipe["data"]["train"]["languages"] == ["fr", "en"]
    assert recipe["data"]["test"]["target"] == str(files["test", "english"])
    assert "dev_size" not in recipe["data"]


def test_windows_1252_with_a_header(init, tmp_path: Path) -> None:
    lines = (f"{pair.french};{pair.english}" for pair in PAIRS)
    path = write(tmp_path / "a.csv", "Français;Anglais", *lines, encoding="cp1252")
    done, recipe = init("translation", path)
    assert "CSV with ';', cp1252, a header, 300 records" in done.out.decode()
    assert recipe["data"]["train"] == {
        "kind": "csv",
        "path": str(path),
        "separator": ";",
        "header": True,
        "columns": ["Français", "Anglais"],
        "languages": ["fr", "en"],
        "encoding": "cp1252",
    }


def test_unknown_languages_are_placeholders_and_said(init, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", *(f"aba{n} ubu\tzyx{n} qwy" for n in range(30)))
    done, recipe = init("translation", path)
    assert recipe["data"]["train"]["languages"] == ["source", "target"]
    assert "Warning:" in done.err
    assert "was not recognized" in done.err


def test_labeled_csv(init, tmp_path: Path) -> None:
    lines = (f'{n},"{text}, it seems",{"pos" if good else "neg"}' for n, (text, good) in
             enumerate(REVIEWS))  # fmt: skip
    path = write(tmp_path / "reviews.csv", "id,review,sentiment", *lines)
    done, recipe = init("classification", path, check=True)
    assert done.code == 0, done.err
    assert "'sentiment' is the label (2 values: pos, neg)" in done.out.decode()
    assert "2 labels in data.train: pos 60, neg 30." in done.err
    assert recipe["data"]["train"]["columns"] == ["review", "sentiment"]


def test_several_labels(init, tmp_path: Path) -> None:
    labels = ("food|price", "food", "place|food", "price", "place", "price|place", "-")
    lines = (f"{labels[n % 7]}\tthe visit of day {n} was nice" for n in range(140))
    done, recipe = init("classification", write(tmp_path / "a.tsv", *lines))
    assert done.code == 0, done.err
    assert recipe["data"]["train"]["labels"] == {"separator": "|", "none": "-"}
    assert recipe["data"]["train"]["columns"] == [1, 0]


def test_a_file_for_each_label(init, tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"reviews.{name}", *(text for text, label in REVIEWS if label == good))
        for name, good in (("pos", True), ("neg", False))
    ]
    done, recipe = init("classification", *paths)
    assert done.code == 0, done.err
    assert recipe["data"]["train"]["classes"] == {"pos": str(paths[0]), "neg": str(paths[1])}


def test_a_budget_replaces_the_steps_of_a_classifier(init, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", *(f"{text}\t{int(good)}" for text, good in REVIEWS))
    assert "steps" in init("classification", path)[1]["training"]
    training = init("classification", path, "--budget", "5min", "--overwrite")[1]["training"]
    assert training["budget"] == "5min"
    assert "steps" not in training


@pytest.mark.parametrize(
    ("task", "lines", "message"),
    [
        ("translation", [], "is empty; give a file with text"),
        ("translation", ["one text a line"] * 9, "in one column where two are needed"),
        (
            "translation",
            [f"{n}\tun texte {n}" for n in range(9)],
            "there is one column of text",
        ),
        ("translation", ["\0\1\2\3"], "is not text but binary data"),
        ("translation", ["%PDF-1.4"], "is a PDF"),
        ("classification", ["one text a line"] * 9, "has no labels"),
        (
            "classification",
            [f"the first text {n}\tthe second text {n}" for n in range(30)],
            "no column looks like a label",
        ),
        ("language-model", [f"{n}\ta text" for n in range(9)], "is read by whole lines"),
    ],
)
def test_refusals(init, tmp_path: Path, task: str, lines: list[str], message: str) -> None:
    done, _ = init(task, write(tmp_path / "a.txt", *lines))
    assert done.code == 1
    assert message in done.err
    assert done.err.startswith("regard: ")
    assert done.err.count("\n") == 1
    assert not (tmp_path / "recipe.yaml").exists()


def test_the_nearest_file_is_named(init, pairs: Path, tmp_path: Path) -> None:
    done, _ = init("translation", tmp_path / "mi.tsv")
    assert done.code == 1
    assert f"did you mean '{pairs}'?" in done.err


def test_an_existing_recipe_is_kept(init, pairs: Path, tmp_path: Path) -> None:
    write(tmp_path / "recipe.yaml", "kept: true")
    done, recipe = init("translation", pairs)
    assert done.code == 1
    assert "--overwrite replaces it" in done.err
    assert recipe == {"kept": True}
    assert init("translation", pairs, "--overwrite")[1]["task"] == "translation"


def test_a_wrong_budget(init, pairs: Path) -> None:
    done, _ = init("translation", pairs, "--budget", "soon")
    assert done.err == "regard: --budget soon: not a time; write 90s, 20min or 1.5h.\n"


def test_dev_data_of_another_format(init, pairs: Path, tmp_path: Path) -> None:
    dev = write(tmp_path / "dev.csv", *(f'"{p.french}","{p.english}"' for p in PAIRS[:9]))
    done, _ = init("translation", pairs, "--dev", dev)
    assert f"{dev}: is CSV, and the training data are not" in done.err


@pytest.mark.parametrize(
    ("task", "file", "settings"),
    [
        ("translation", "tatoeba-fr-en/train.tsv.gz", {"languages": ["fr", "en"]}),
        ("translation", "python-docs-fr/en-fr.tsv.gz", {"languages": ["en", "fr"]}),
        (
            "translation",
            "novels-fr-en/aligned.tsv.gz",
            {"columns": [1, 2], "languages": ["fr", "en"]},
        ),
        ("translation", "hansards-align/test.tsv", {"columns": [0, 1], "languages": ["en", "fr"]}),
        ("classification", "sst2/train.tsv", {"kind": "labeled", "columns": [0, 1]}),
        ("language-model", "tinyshakespeare/input.txt", {"kind": "text", "documents": "file"}),
        ("summarization", "debian-summaries/summaries.tsv.gz", {"columns": [1, 2]}),
        ("summarization", "scitldr/train.jsonl.gz", {"lists": ["sentences", "versions"]}),
        ("masked-lm", "movie-reviews/rt-polarity.pos", {"documents": "line"}),
    ],
)
def test_real_files(init, shared_data: Path, task: str, file: str, settings: dict) -> None:
    done, recipe = init(task, shared_data / file)
    assert done.code == 0, done.err
    assert recipe["data"]["train"].items() >= settings.items()


def test_long_reviews_are_cut(init, tmp_path: Path) -> None:
    lines = (f"{'a long review of it ' * 300}{n}\t{n % 2}" for n in range(40))
    path = tmp_path / "reviews.tsv.gz"
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    _, recipe = init("classification", path)
    assert recipe["task"] == {"kind": "classification", "truncate": "both"}
    assert recipe["model"]["max_length"] == 512


def test_languages_that_change_from_line_to_line(init, tmp_path: Path) -> None:
    lines = [f"{p.french}\t{p.english}" if n % 2 else f"{p.english}\t{p.french}"
             for n, p in enumerate(PAIRS)]  # fmt: skip
    done, _ = init("translation", write(tmp_path / "mixed.tsv", *lines))
    assert "are both in English and French, mixed from line to line" in done.err
