"""The source uses the field's vocabulary: banned identifiers and docstring openings stay out.

The rules are in CONTRIBUTING.md. A name on these lists has a better one that the field uses.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "regard"
FILES = sorted(SOURCE.rglob("*.py"))

# Openings that tell what something is about, not what it is or does.
OPENINGS = {"What", "How", "Of", "Where", "Which", "Whether", "Those", "Who", "Whose", "Why"}

# Names that say nothing about their content, as variables, parameters, functions or attributes.
VAGUE = {
    "anew",
    "asked",
    "begun",
    "each",
    "found",
    "given",
    "heard",
    "said",
    "spoken",
    "told",
    "wanted",
    "way",
    "ways",
}

# Names that the field has other words for, each with the word.
PRIVATE = {
    "ApartBatch": "DocumentMaskedBatch",
    "Aside": "AuxLoss",
    "Beginnings": "LiveHypotheses",
    "Chooser": "ZeroShotClassifier",
    "Condensed": "CompressedCache",
    "Crossroads": "BeamStep",
    "Everything": "Full",
    "Extender": "Prefills",
    "Film": "History",
    "Filler": "MaskFiller",
    "Fluent": "HasFusedGreedy",
    "Glimpse": "HeadActivity",
    "Guesser": "Drafter",
    "Intake": "LengthLimits",
    "JobSpec": "TaskSpec",
    "Journey": "AllToAllDispatcher",
    "Judgement": "Prediction",
    "KeyValues": "KVCache",
    "Labeller": "Classifier",
    "Lanes": "ThreadedBackward",
    "LanguageGuess": "LanguageIdentifier",
    "OnStream": "ResidualModule",
    "Onlooker": "StepCallback",
    "Proof": "Check",
    "Retraceable": "Truncatable",
    "Scribe": "StoreWriter",
    "Standing": "TrainState",
    "StepByStep": "PerTokenModule",
    "UNCOUNTED": "IGNORE_INDEX",
    "Wishes": "Constraints",
    "asides": "aux_losses",
    "at_its_best": "for_evaluation",
    "bearable": "downsample",
    "brought_together": "gathered_experts",
    "glimpses": "head_activity",
    "heeding": "catch_interrupts",
    "honours": "supports",
    "joined": "single_sequence",
    "key_heads": "kv_heads",
    "key_size": "head_dim",
    "kept_heads": "retained_heads",
    "lanes": "threads",
    "learns_by_heart": "can_overfit",
    "listening": "collect_aux_losses",
    "look_across": "cross",
    "look_around": "bidirectional",
    "look_back": "causal",
    "meant_for": "for_capability",
    "namesake": "matching_name",
    "papers": "documents",
    "reads_trees": "needs_trees",
    "scribe": "writer",
    "sift": "deduplicate",
    "source_padding": "source_mask",
    "target_padding": "target_mask",
    "tongues": "languages",
    "vouching": "manifest",
    "why_over": "stop_reason",
    "wordwise": "cached_encoder",
}

BRITISH = re.compile(
    r"(optimis|initialis|normalis|utilis|regularis|organis|recognis|serialis|synchronis|generalis"
    r"|tokenis|labell|modell|cancell|colour|favour|behaviour|neighbour|centre|catalogue|judgement"
    r"|grey|analys(e|ing)\b)",
    re.IGNORECASE,
)


def _identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every name that the file defines, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node.lineno


def _docstrings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the docstrings of modules, classes and functions, and those below attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str) and text.strip():
                yield text, node.lineno


def _violations(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = path.relative_to(SOURCE).as_posix()
    for part in path.relative_to(SOURCE).with_suffix("").parts:
        if part in PRIVATE or BRITISH.search(part):
            yield f"{name}: the file or folder name '{part}'"
    for identifier, line in _identifiers(tree):
        if identifier in VAGUE:
            yield f"{name}:{line}: '{identifier}' does not name its content"
        if identifier in PRIVATE:
            yield f"{name}:{line}: '{identifier}' is '{PRIVATE[identifier]}' in the field"
        if BRITISH.search(identifier):
            yield f"{name}:{line}: '{identifier}' is not in American spelling"
    for text, line in _docstrings(tree):
        opening = text.split(maxsplit=1)[0]
        if opening in OPENINGS:
            yield f"{name}:{line}: a docstring opens with '{opening}'"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_names_and_docstrings_use_the_vocabulary_of_the_field(path: Path) -> None:
    assert list(_violations(path)) == []


def test_the_lists_find_what_they_ban(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    (tmp_path / "lanes.py").write_text(
        '"""What is kept."""\nfound = 1\nclass Labeller:\n    optimiser = 2\n    """Of it."""\n',
        encoding="utf-8",
    )
    problems = "\n".join(_violations(tmp_path / "lanes.py"))
    for banned in ("lanes", "What", "Of", "found", "Labeller", "optimiser"):
        assert f"'{banned}'" in problems
