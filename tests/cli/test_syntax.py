"""A classifier that reads trees, from CoNLL-U to labels: only the tree tells what is asked."""

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


def sentence(chance: random.Random) -> str:
    """Nouns around the word 'which', whose head is one of them: how many is that?"""
    size = chance.randrange(4, 7)
    words = [chance.choice(WORDS) for _ in range(size)]
    asked, *others = chance.sample(range(size), size)
    words[asked] = "which"
    heads, above = [0] * size, [others[0]]
    heads[others[0]] = 0  # the root
    for word in others[1:]:
        heads[word] = chance.choice(above) + 1
        above.append(word)
    head = chance.choice(others)
    heads[asked] = head + 1
    label = "many" if words[head].endswith("s") else "one"
    lines = [f"# label = {label}"]
    for number, (word, above_it) in enumerate(zip(words, heads, strict=True), start=1):
        lines.append(f"{number}\t{word}\t_\tX\t_\t_\t{above_it}\tdep\t_\t_")
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
    made, chance = tmp_path_factory.mktemp("syntax"), random.Random(5)
    (made / "data.conllu").write_text("".join(sentence(chance) for _ in range(1200)))
    (made / "other.conllu").write_text("".join(sentence(chance) for _ in range(200)))
    recipe = make_recipe(content(made, "syntax"), (), "recipe")
    train(recipe, made / "run")
    (made / "recipe.yaml").write_text(json.dumps(plain(recipe)))
    return made


def test_it_learns_what_only_the_tree_tells(folder: Path, call) -> None:
    answer = call("evaluate", folder / "run", folder / "other.conllu", "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["texts"] == 200
    assert found["accuracy"] > 0.9


def test_without_the_tree_nobody_could_tell(folder: Path) -> None:
    """The same data and as many steps: what is above chance by far needs the tree."""
    train(make_recipe(content(folder, "sinusoidal"), (), "recipe"), folder / "linear")
    scores = json.loads((folder / "linear" / "model.json").read_text())["details"]["scores"]
    assert scores["accuracy"] < 0.85


def test_a_label_for_each_sentence(folder: Path, call) -> None:
    answer = call("classify", folder / "run", folder / "other.conllu")
    assert answer.code == 0, answer.err
    told = [line.split("\t")[0] for line in answer.out.splitlines()]
    labeller = regard.load(folder / "run")
    assert isinstance(labeller, Classifier)
    sentences = list(parsed_sentences(folder / "other.conllu"))
    assert told == [each.label for each in labeller.classify(sentences)]
    alone = [labeller.classify([each])[0].probability for each in sentences[:5]]
    together = [each.probability for each in labeller.classify(sentences)[:5]]
    assert alone == pytest.approx(together, abs=1e-4)


def test_text_without_trees_is_refused(folder: Path, call) -> None:
    for arguments in (("classify", "--text", "cat which dogs"), ("look", "cat which dogs")):
        answer = call(arguments[0], folder / "run", *arguments[1:])
        assert answer.code == 1
        assert "this model needs dependency trees, and this text has none" in answer.err
        assert answer.out == ""
    labeller, parsed = regard.load(folder / "run"), next(parsed_sentences(folder / "other.conllu"))
    with pytest.raises(DataError, match="text 2: this model places"):
        labeller.classify([parsed, "cat which dogs"])


def test_look_takes_a_sentence_with_its_tree(folder: Path, call, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    answer = call("look", folder / "run", folder / "other.conllu", "--sentence", 3, "-o", page)
    assert answer.code == 0, answer.err
    third = list(parsed_sentences(folder / "other.conllu"))[2]
    shown = look(regard.load(folder / "run"), third)
    assert shown.source == third.text
    assert third.text in page.read_text()
    beyond = call("look", folder / "run", folder / "other.conllu", "--sentence", 201)
    assert beyond.code == 1
    assert "other.conllu: there is no sentence 201; it has 200" in beyond.err


def test_look_shows_what_the_tree_did(folder: Path) -> None:
    """The same words on another tree: other weights."""
    labeller, given = regard.load(folder / "run"), next(parsed_sentences(folder / "other.conllu"))
    flat = ParsedText(given.text, Tree(given.tree.spans, (0,) * len(given.tree.heads)))
    one, other = (look(labeller, each).panels[0].weights for each in (given, flat))
    assert one.shape == other.shape
    assert abs(one - other).max() > 0.01


def test_a_sentence_is_chosen_of_files_only(folder: Path, call) -> None:
    answer = call("look", folder / "run", "cat which dogs", "--sentence", 1)
    assert answer.code == 1
    assert "--sentence is for a .conllu file and a model that reads trees" in answer.err


def test_heads_says_that_it_reads_no_trees(folder: Path, call) -> None:
    answer = call("heads", folder / "run", folder / "other.conllu")
    assert answer.code == 1
    assert "`regard look` shows them" in answer.err


def test_evaluate_reads_its_source_another_way(folder: Path, call, tmp_path: Path) -> None:
    text = (folder / "other.conllu").read_text().replace("# label =", "# told =")
    (tmp_path / "told.conllu").write_text(text)
    usual = call("evaluate", folder / "run", folder / "other.conllu", "--json")
    for changes in (("comment=told",), ("kind=conllu", "comment=told")):
        options = [part for change in changes for part in ("--source", change)]
        answer = call("evaluate", folder / "run", tmp_path / "told.conllu", "--json", *options)
        assert answer.code == 0, answer.err
        assert answer.out == usual.out
    for change, why in (("coment=x", "did you mean 'comment'"), ("path=x", "path is the file")):
        wrong = call("evaluate", folder / "run", tmp_path / "told.conllu", "--source", change)
        assert wrong.code == 1
        assert why in wrong.err


def test_a_wrong_line_is_named(folder: Path, call, tmp_path: Path) -> None:
    lines = (folder / "other.conllu").read_text().splitlines()
    lines[2] = lines[2].replace("\tdep\t", "\tdep")
    (tmp_path / "bad.conllu").write_text("\n".join(lines))
    for command in ("classify", "evaluate"):
        answer = call(command, folder / "run", tmp_path / "bad.conllu")
        assert answer.code == 1
        assert "bad.conllu, line 3: bad columns (there are 9 with tabs" in answer.err


def test_a_file_without_sentences_is_named(folder: Path, call, tmp_path: Path) -> None:
    (tmp_path / "bare.conllu").write_text("# only a comment\n\n")
    for command in ("classify", "look"):
        answer = call(command, folder / "run", tmp_path / "bare.conllu")
        assert answer.code == 1
        assert "bare.conllu: there is no sentence in it" in answer.err


def test_data_without_trees_are_refused_before_training(folder: Path, call) -> None:
    (folder / "flat.tsv").write_text("a\tone\nb\tmany\n")
    recipe = content(folder, "syntax")
    recipe["data"]["train"] = {"kind": "labeled", "path": str(folder / "flat.tsv")}
    (folder / "flat.yaml").write_text(json.dumps(recipe))
    answer = call("train", folder / "flat.yaml")
    assert answer.code == 1
    assert "data.train has a source of kind labeled, which has none" in answer.err


def test_a_language_model_has_no_trees(folder: Path, call) -> None:
    (folder / "text.txt").write_text("cats sleep\n")
    recipe = {
        "task": "language-model",
        "data": {"train": {"kind": "text", "path": str(folder / "text.txt")}},
        "model": {"kind": "language-model", "position": "syntax"},
    }
    (folder / "text.yaml").write_text(json.dumps(recipe))
    answer = call("train", folder / "text.yaml")
    assert answer.code == 1
    assert "which so far only texts with labels have (task: classification)" in answer.err


def test_it_passes_what_every_recipe_has_to(folder: Path, call) -> None:
    answer = call("check", folder / "recipe.yaml")
    assert answer.code == 0, answer.out + answer.err
