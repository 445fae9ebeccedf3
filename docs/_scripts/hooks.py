"""Add the generated reference pages to the site (an mkdocs hook, see mkdocs.yml)."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import cli_reference
import datasets_reference
import kinds_reference
import python_reference
import recipe_reference

PAGES = {
    "reference/cli.md": cli_reference.page,
    "reference/recipe.md": recipe_reference.page,
    "reference/kinds.md": kinds_reference.page,
    "reference/datasets.md": datasets_reference.page,
    "reference/python.md": python_reference.page,
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Generate every page of `PAGES` from the code, so that none has to be edited."""
    for path, page in PAGES.items():
        files.append(File.generated(config, path, content=page()))
    return files
