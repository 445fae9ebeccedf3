"""Commands and recipes in the pages: every option, key and kind that they show exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import TypeAdapter, ValidationError

from regard import Recipe
from regard.cli import app
from regard.config import override, read_yaml
from regard.data.config import DataSpec

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
TAKES_OVERRIDES = ("train", "check", "resume")


def blocks(text: str, *languages: str) -> Iterator[str]:
    """Return the fenced blocks of a page in one of the languages, without their indentation."""
    for indent, language, block in FENCE.findall(text):
        if language in languages:
            yield re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)


def commands(text: str) -> Iterator[list[str]]:
    """Return the `regard` commands of a page's blocks as lists of words."""
    for block in blocks(text, "", "bash", "console", "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"\$\(.*\)", "OUTPUT", line)
            line = re.split(r"(?<=\S) {3,}", line.strip().removeprefix("$ "))[0]  # then a remark
            if re.match(r"(echo .*\| *|exec )?(\.venv/bin/)?regard [a-z]+\b", line):
                lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
                lexer.whitespace_split = True
                words = list(lexer)
                start = max(i for i, word in enumerate(words) if word.endswith("regard"))
                ends = (i for i, word in enumerate(words) if i > start and word in ("|", ">", "<"))
                yield words[start + 1 : next(ends, None)]


def recipe_errors(sections: dict[str, Any]) -> list[str]:
    """Return what is wrong with the sections of a recipe, apart from what they leave out."""
    fields = {field.alias or name: field for name, field in Recipe.model_fields.items()}
    errors = [f"unknown section {name}" for name in sections if name not in fields]
    for name, section in sections.items():
        if name in ("init", "pretrained_embeddings") or name not in fields or section is None:
            continue
        try:
            TypeAdapter(fields[name].rebuild_annotation()).validate_python(section)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            errors += [
                f"{name}.{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
                for problem in problems
                if problem["type"] not in ("missing", "no_kind")
            ]
    return errors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_pages_have_valid_options(page: Path) -> None:
    group = typer.main.get_command(app)
    for name, *arguments in commands(page.read_text(encoding="utf-8")):
        assert name in group.commands, name
        with group.commands[name].make_context(name, list(arguments)) as context:
            overrides = context.params.get("overrides") or []
        if name in TAKES_OVERRIDES:
            assert recipe_errors(override({}, overrides)) == [], arguments


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_the_text_exist(page: Path) -> None:
    """Check code spans such as `regard look RUN --live`."""
    group = typer.main.get_command(app)
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for span in re.findall(r"`regard ([a-z][^`\n]*)`", text):
        name, *words = span.split()
        assert name in group.commands, span
        known = {option for parameter in group.commands[name].params for option in parameter.opts}
        for word in words:
            option = word.partition("=")[0].rstrip(",.")
            assert not option.startswith("--") or option in known, span


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_recipes_in_the_pages_have_valid_keys(page: Path, tmp_path: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8"), "yaml"):
        if "apiVersion" in block:
            continue  # a manifest of Kubernetes
        (tmp_path / "recipe.yaml").write_text(block, encoding="utf-8")
        sections = read_yaml(tmp_path / "recipe.yaml")
        if sections.keys() <= DataSpec.model_fields.keys():
            sections = {"data": sections}
        assert recipe_errors(sections) == [], block
