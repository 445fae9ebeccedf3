"""What the pages say is true: links lead somewhere, and the code in them runs."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import regard.attention
import regard.lab.claims
from regard import lab
from regard.config import kinds
from regard.models.base import ModelSpec
from regard.training.recipe import read_recipe

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITTEN_BY_THE_READER = {
    "src/regard/attention/cosine.py",
    "tests/attention/test_cosine.py",
    "tests/lab/claims/test_means.py",
}

# Pages that `make docs` generates; tests/test_docs_site.py builds them.
NAMES = ("cli", "recipe", "kinds", "datasets", "python")
GENERATED = {ROOT / f"docs/reference/{name}.md" for name in NAMES}


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def python_in(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in blocks]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            path = (page.parent / target).resolve()
            assert path.exists() or path in GENERATED, target


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_imports_in_the_pages_work(page: Path) -> None:
    """Check the pages' Python that no other test executes, as far as it goes without a model."""
    for code in python_in(page_id(page)):
        statements = ast.parse(code).body
        imports = [
            statement
            for statement in statements
            if isinstance(statement, ast.Import | ast.ImportFrom)
        ]
        exec(compile(ast.Module(imports, []), str(page), "exec"), {})


def test_source_files_named_in_the_explanations_exist() -> None:
    for page in ("explanation/components-and-equations.md", "architecture.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for name in re.findall(r"`((?:\w+/)+\w+\.py)`", text):
            assert (ROOT / "src/regard" / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_repository_files_named_in_code_exist(page: Path) -> None:
    names = r"`((?:src|tests|docs|benchmarks|recipes)/(?:[\w-]+/)*[\w-]+\.\w+)`"
    for name in re.findall(names, page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists() or name in WRITTEN_BY_THE_READER, name


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_recipe_is_one(path: Path) -> None:
    recipe = read_recipe(path, [])
    assert recipe.task.record_type == recipe.data.record_type
    one_way = recipe.data.directions or recipe.task.kind() == "summarization"
    assert one_way or recipe.data.record_type != "pair"


def test_the_parts_can_be_built_as_shown() -> None:
    (code,) = python_in("docs/explanation/components-and-equations.md")
    names: dict = {}
    exec(code, names)
    assert names["logits"].shape == (2, 5, 8000)
    assert names["seen"].weights("decoder.blocks.0.cross").shape == (2, 4, 5, 7)


def test_long_texts_are_read_as_shown() -> None:
    names: dict = {}
    for code in python_in("docs/how-to/long-sequences.md"):
        exec(code, names)
    assert names["weights"].shape == (1, 4, 30, 30)
    assert names["state"].length == 31


def test_trees_can_be_used_as_shown() -> None:
    _, code = python_in("docs/how-to/syntax-aware-positions.md")
    names: dict = {}
    exec(code, names)
    assert names["trees"].depths.tolist() == [[2, 1, 3, 3, 2, 1, 0]]
    assert names["states"].shape == (1, 7, 256)


def test_experts_can_be_seen_as_shown() -> None:
    (code,) = python_in("docs/how-to/mixture-of-experts.md")
    names: dict = {}
    exec(code, names)
    assert names["gates"].shape == (2, 7, 16)
    assert int(names["used"].sum()) == 2 * 7 * 2


def test_the_corpus_can_be_used_as_shown() -> None:
    names: dict = {}
    for code in python_in("docs/explanation/bundled-corpus.md"):
        exec(code, names)
    assert names["novel"]


def test_a_kind_of_attention_is_one_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example in CONTRIBUTING, as a file in the room."""
    (code,) = python_in("CONTRIBUTING.md")
    (tmp_path / "cosine.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(regard.attention, "__path__", [*regard.attention.__path__, str(tmp_path)])
    assert "cosine" in kinds("regard.attention")
    spec = ModelSpec.model_validate(
        {"kind": "encoder", "size": "tiny", "attention": {"kind": "cosine", "temperature": 20}}
    )
    model = spec.build(10).eval()
    with regard.watch(model) as seen:
        model(torch.arange(5)[None])
    assert seen.weights("blocks.0.attention").shape == (1, 4, 5, 5)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/how-to/lab.md"])
def test_files_to_copy_pass_lint_and_types(page: str, tmp_path: Path) -> None:
    """Types with the cache of `make lint`: without it mypy reads all of torch."""
    file = tmp_path / "copied.py"
    file.write_text(python_in(page)[-1], encoding="utf-8")
    settings = str(ROOT / "pyproject.toml")
    for command in (
        ["ruff", "check", "--config", settings],
        ["ruff", "format", "--check", "--config", settings],
        ["mypy", "--config-file", settings, "--cache-dir", str(ROOT / ".mypy_cache")],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command, str(file)],
            cwd=ROOT,
            env={**os.environ, "MYPYPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_claim_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of the lab's page, as a file in the room."""
    using, writing = python_in("docs/how-to/lab.md")
    assert "lab.run" in using
    (tmp_path / "means.py").write_text(writing, encoding="utf-8")
    monkeypatch.setattr(regard.lab.claims, "__path__", [*regard.lab.claims.__path__, str(tmp_path)])
    finding = lab.run("means")
    assert finding.verdict == "supported"
    assert lab.run("means", quick=True).verdict is None
    assert finding.show()


def test_the_lab_can_be_used_as_shown() -> None:
    using, _ = python_in("docs/how-to/lab.md")
    names: dict = {}
    exec(using.replace('{"steps": 100}', '{"steps": 2, "head_dim": 16, "sizes": (4, 8)}'), names)
    assert set(names["finding"].outcomes) == set(names["finding"].claim.criteria)


def test_the_first_tutorial_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Execute its script and its recipe with less data and two steps."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/tutorials/translator.md").read_text(encoding="utf-8")
    script = python_in("docs/tutorials/translator.md")[0]
    exec(script.replace("20_000", "300").replace("1_000", "8"), {})
    (recipe,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    Path("first.yaml").write_text(recipe, encoding="utf-8")
    overrides = ["training.steps=2", "training.evaluation.every=2", "model.layers=1"]
    translator = regard.train(read_recipe(Path("first.yaml"), overrides), Path("runs/first"))
    assert len(translator.translate(["Le chat dort."])) == 1
    assert Path("runs/first/ledger.json").exists()
