"""A classifier with syntax positions on CoNLL-U: the label depends only on the tree."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.config import plain
from regard.data.sources.conllu import parsed_sentences
from regard.data.sources.trees import ParsedText, Tree
from regard.errors import DataError
from regard.insight.look import look
from regard.predictors.classifier import Classifier
from regard.training.recipe import make_recipe
from regard.training.trainer import train

WORDS = ("box", "boxes", "cat", "cats", "dog", "dogs", "key", "keys")


def sentence(rng: random.Random) -> str:
    """Return nouns around the word 'which'; the label is the number of its head."""
    size = rng.randrange(4, 7)
    words = [rng.choice(WORDS) for _ in range(size)]
    which, *others = rng.sample(range(size), size)
    words[which] = "which"
    heads, attached = [0] * size, [others[0]]
    heads[others[0]] = 0  # the root
    for word in others[1:]:
        heads[word] = rng.choice(attached) + 1
        attached.append(word)
    head = rng.choice(others)
    heads[which] = head + 1
    label = "many" if words[head].endswith("s") else "one"
    lines = [f"# label = {label}"]
    for number, (word, head_number) in enumerate(zip(words, heads, strict=True), start=1):
        lines.append(f"{number}\t{word}\t_\tX\t_\t_\t{head_number}\tdep\t_\t_")
    return "\n".join(lines) + "\n\n"


def content(folder: Path, position: Any) -> dict[str, Any]:
    return {
        "task": "classification",
        "data": {
            "train": {"kind": "conllu", "path": str(folder / "data.conllu")},
            "dev_size": 60,
            "prepared": str(folder / "prepared"),
        },
        "tokenizer": {"kind": "word", "vocabulary": 300},
        "model": {
            "kind": "classifier",
            "dim": 32,
            "heads": 2,
            "ffn_dim": 64,
            "layers": 2,
            "dropout": 0.0,
            "max_length": 48,
            "pooling": "attention",
            "position": position,
        },
        "training": {
            "steps": 120,
            "batch_tokens": 500,
            "optimizer": {"learning_rate": 0.01},
            "evaluation": {"every": 60},
        },
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, rng = tmp_path_factory.mktemp("syntax"), random.Random(5)
    (home / "data.conllu").write_text("".join(sentence(rng) for _ in range(1200)))
    (home / "other.conllu").write_text("".join(sentence(rng) for _ in range(200)))
    recipe = make_recipe(content(home, "syntax"), (), "recipe")
    train(recipe, home / "run")
    (home / "recipe.yaml").write_text(json.dumps(plain(recipe)))
    return home


def test_labels_that_depend_on_the_tree_are_learned(folder: Path, call) -> None:
    result = call("evaluate", folder / "run", folder / "other.conllu", "--json")
    assert result.code == 0, result.err
    scores = json.loads(result.out)
    assert scores["texts"] == 200
    assert scores["accuracy"] > 0.9


def test_without_the_tree_accuracy_stays_low(folder: Path) -> None:
    """Same data, same number of steps, sinusoidal positions."""
    train(make_recipe(content(folder, "sinusoidal"), (), "recipe"), folder / "linear")
    scores = json.loads((folder / "linear" / "model.json").read_text())["details"]["scores"]
    assert scores["accuracy"] < 0.85


def test_every_sentence_is_labeled(folder: Path, call) -> None:
    result = call("classify", folder / "run", folder / "other.conllu")
    assert result.code == 0, result.err
    labels = [line.split("\t")[0] for line in result.out.splitlines()]
    classifier = regard.load(folder / "run")
    assert isinstance(classifier, Classifier)
    sentences = list(parsed_sentences(folder / "other.conllu"))
    assert labels == [prediction.label for prediction in classifier.classify(sentences)]
    alone = [classifier.classify([text])[0].probability for text in sentences[:5]]
    together = [prediction.probability for prediction in classifier.classify(sentences)[:5]]
    assert alone == pytest.approx(together, abs=1e-4)


def test_text_without_trees_is_refused(folder: Path, call) -> None:
    for arguments in (("classify", "--text", "cat which dogs"), ("look", "cat which dogs")):
        result = call(arguments[0], folder / "run", *arguments[1:])
        assert result.code == 1
        assert "this model needs dependency trees, and this text has none" in result.err
        assert result.out == ""
    classifier, parsed = (
        regard.load(folder / "run"),
        next(parsed_sentences(folder / "other.conllu")),
    )
    with pytest.raises(DataError, match="text 2: this model needs dependency trees"):
        classifier.classify([parsed, "cat which dogs"])


def test_look_shows_the_numbered_sentence_of_a_file(folder: Path, call, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = call("look", folder / "run", folder / "other.conllu", "--sentence", 3, "-o", page)
    assert result.code == 0, result.err
    third = list(parsed_sentences(folder / "other.conllu"))[2]
    shown = look(regard.load(folder / "run"), third)
    assert shown.source == third.text
    assert third.text in page.read_text()
    beyond = call("look", folder / "run", folder / "other.conllu", "--sentence", 201)
    assert beyond.code == 1
    assert "other.conllu: there is no sentence 201; it has 200" in beyond.err


def test_attention_weights_depend_on_the_tree(folder: Path) -> None:
    classifier, parsed = (
        regard.load(folder / "run"),
        next(parsed_sentences(folder / "other.conllu")),
    )
    flat = ParsedText(parsed.text, Tree(parsed.tree.spans, (0,) * len(parsed.tree.heads)))
    first, second = (look(classifier, text).panels[0].weights for text in (parsed, flat))
    assert first.shape == second.shape
    assert abs(first - second).max() > 0.01


def test_sentence_option_needs_a_file(folder: Path, call) -> None:
    result = call("look", folder / "run", "cat which dogs", "--sentence", 1)
    assert result.code == 1
    assert "--sentence is for a .conllu file and a model that reads trees" in result.err


def test_heads_refuses_trees(folder: Path, call) -> None:
    result = call("heads", folder / "run", folder / "other.conllu")
    assert result.code == 1
    assert "`regard look` shows them" in result.err


def test_source_options_of_evaluate(folder: Path, call, tmp_path: Path) -> None:
    text = (folder / "other.conllu").read_text().replace("# label =", "# class =")
    (tmp_path / "classes.conllu").write_text(text)
    expected = call("evaluate", folder / "run", folder / "other.conllu", "--json")
    for changes in (("comment=class",), ("kind=conllu", "comment=class")):
        options = [part for change in changes for part in ("--source", change)]
        result = call("evaluate", folder / "run", tmp_path / "classes.conllu", "--json", *options)
        assert result.code == 0, result.err
        assert result.out == expected.out
    for change, message in (("coment=x", "did you mean 'comment'"), ("path=x", "path is the file")):
        refused = call("evaluate", folder / "run", tmp_path / "classes.conllu", "--source", change)
        assert refused.code == 1
        assert message in refused.err


def test_error_names_the_bad_line(folder: Path, call, tmp_path: Path) -> None:
    lines = (folder / "other.conllu").read_text().splitlines()
    lines[2] = lines[2].replace("\tdep\t", "\tdep")
    (tmp_path / "bad.conllu").write_text("\n".join(lines))
    for command in ("classify", "evaluate"):
        result = call(command, folder / "run", tmp_path / "bad.conllu")
        assert result.code == 1
        assert "bad.conllu, line 3: bad columns (there are 9 columns between tabs" in result.err


def test_error_names_a_file_without_sentences(folder: Path, call, tmp_path: Path) -> None:
    (tmp_path / "bare.conllu").write_text("# only a comment\n\n")
    for command in ("classify", "look"):
        result = call(command, folder / "run", tmp_path / "bare.conllu")
        assert result.code == 1
        assert "bare.conllu: there is no sentence in it" in result.err


def test_data_without_trees_is_refused_before_training(folder: Path, call) -> None:
    (folder / "flat.tsv").write_text("a\tone\nb\tmany\n")
    recipe = content(folder, "syntax")
    recipe["data"]["train"] = {"kind": "labeled", "path": str(folder / "flat.tsv")}
    (folder / "flat.yaml").write_text(json.dumps(recipe))
    result = call("train", folder / "flat.yaml")
    assert result.code == 1
    assert "data.train has a source of kind labeled without them" in result.err


def test_syntax_positions_of_a_language_model_are_refused(folder: Path, call) -> None:
    (folder / "text.txt").write_text("cats sleep\n")
    recipe = {
        "task": "language-model",
        "data": {"train": {"kind": "text", "path": str(folder / "text.txt")}},
        "model": {"kind": "language-model", "position": "syntax"},
    }
    (folder / "text.yaml").write_text(json.dumps(recipe))
    result = call("train", folder / "text.yaml")
    assert result.code == 1
    assert "which only labeled texts have (task: classification)" in result.err


def test_recipe_passes_every_check(folder: Path, call) -> None:
    result = call("check", folder / "recipe.yaml")
    assert result.code == 0, result.out + result.err
