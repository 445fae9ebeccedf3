"""The documentation site: it builds without a warning, needs no network and is complete."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

import regard
from regard.cli import app
from regard.config import Kind, Spec, kinds

ROOT = Path(__file__).parent.parent
RESOURCES = {"audio", "embed", "iframe", "img", "link", "object", "script", "source", "video"}
VOID = {"br", "hr", "img", "input", "link", "meta", "path", "source", "wbr"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. `--strict` fails on every warning: a broken link, anchor or docstring."""
    if find_spec("material") is None or find_spec("mkdocstrings") is None:
        reason = "the site is built with mkdocs-material and mkdocstrings: install regard[docs]"
        # Where a run decides what is merged, a missing package must not look like success.
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    built = subprocess.run(
        [*command, "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


class Page(HTMLParser):
    """The resources that a page loads, and the text of its paragraphs outside code."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.resources: list[str] = []
        self.paragraphs: list[str] = []
        self._open: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if tag in RESOURCES and name in ("src", "href", "data", "srcset") and value:
                self.resources.append(value)
        if tag == "p":
            self.paragraphs.append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "p" in self._open and not {"code", "pre"} & set(self._open):
            self.paragraphs[-1] += data


def all_specs() -> Iterator[type[Spec]]:
    """Every spec of regard that somebody may write keys of."""
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)
    waiting: list[type[Spec]] = [Spec]
    while waiting:
        spec = waiting.pop()
        waiting += spec.__subclasses__()
        if spec.__module__.startswith("regard."):
            yield spec


def test_pages_load_nothing_from_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        for resource in Page(page).resources:
            assert not re.match(r"(\w+:)?//", resource), f"{page.name}: {resource}"


def test_styles_load_nothing_from_the_network(site: Path) -> None:
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"""(url\(|@import\s)\s*["']?(https?:)?//""", text), style.name


def test_search_works_without_a_server(site: Path) -> None:
    assert "var __index" in (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert (site / "assets" / "iframe-worker.js").exists()


def test_paragraphs_hold_no_lists_or_tables_that_were_not_rendered(site: Path) -> None:
    for page in site.rglob("*.html"):
        for paragraph in Page(page).paragraphs:
            assert not re.search(r"^(- |\d+\. |\|.*\|$|#+ )", paragraph, re.MULTILINE), page.name


def test_cli_page_has_every_command_and_option(site: Path) -> None:
    page = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    group = typer.main.get_command(app)
    assert len(group.commands) > 15
    for name, command in group.commands.items():
        section = page.partition(f'<h2 id="{name}">')[2].partition("<h2 ")[0]
        assert section, name
        for parameter in command.params:
            for option in parameter.opts:
                shown = option if option.startswith("-") else option.upper()
                assert f"<code>{shown}" in section, f"{name} {option}"


def test_schema_pages_have_every_kind(site: Path) -> None:
    recipe, others = (
        (site / "reference" / f"{page}.html").read_text(encoding="utf-8")
        for page in ("recipe", "kinds")
    )
    list(all_specs())  # imports every package of kinds
    for base in Kind.__subclasses__():
        for kind in kinds(base.package):
            assert re.search(rf'<h3 id="[\w-]+-{kind}">', recipe + others), kind
            assert f"<code>{kind}</code>" in others
    for section in ("data", "model", "training", "tokenizer", "training-evaluation"):
        assert f'<h2 id="{section}">' in recipe


def test_every_key_of_a_recipe_has_a_description() -> None:
    for spec in all_specs():
        for name, field in spec.model_fields.items():
            assert field.description, f"{spec.__module__}.{spec.__name__}: {name}"


def test_python_page_has_every_public_name(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in regard.__all__:
        assert re.search(rf'<h2 id="regard\.([\w.]+\.)?{name}"', page), name
