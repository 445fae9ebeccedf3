"""The generated reference has every name that an error message lists: kinds, keys and others."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from regard.cli.export import TO
from regard.config import Kind, kind_specs
from regard.data.datasets.catalog import dataset_named, dataset_names
from regard.errors import ConfigError, DataError
from regard.insight.watch import POINTS, watch
from regard.interchange.families.base import families, family_of

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def scripts() -> dict[str, ModuleType]:
    sys.path.insert(0, str(ROOT / "docs" / "_scripts"))
    try:
        import datasets_reference
        import kinds_reference
        import recipe_reference
    finally:
        sys.path.pop(0)
    return {
        "datasets": datasets_reference,
        "kinds": kinds_reference,
        "recipe": recipe_reference,
    }


def test_every_kind_of_every_package_is_listed_with_its_keys(scripts) -> None:
    pages = scripts["recipe"].page() + scripts["kinds"].page()
    sections = dict(re.findall(r"^### [^\n]*\{#([\w-]+)\}\n(.*?)(?=^##|\Z)", pages, re.M | re.S))
    bases: list[type[Kind]] = scripts["kinds"].all_bases()
    assert len(bases) > 15
    for base in bases:
        for spec in kind_specs(base.package):
            ending = f"-{spec.kind()}"
            own = [text for anchor, text in sections.items() if anchor.endswith(ending)]
            keys = [field.alias or name for name, field in spec.model_fields.items()]
            assert any(all(f"| `{key}` |" in text for key in keys) for text in own), spec


def test_every_data_set_is_listed_with_its_terms(scripts) -> None:
    page = scripts["datasets"].page()
    for name in dataset_names():
        dataset = dataset_named(name)
        section = page.partition(f"{{#{name}}}")[2].partition("\n## ")[0]
        assert f"License: {dataset.license}." in section
        assert f"Cite: {dataset.citation}." in section
        assert all(f"| `{split}` |" in section for split in dataset.splits)


def test_other_names_in_error_messages_are_listed(scripts) -> None:
    page = scripts["kinds"].page()
    with pytest.raises(DataError) as unknown_type:
        family_of("nothing", "config.json")
    with pytest.raises(ConfigError) as unknown_point, watch(torch.nn.Identity(), {"nothing"}):
        pass
    types = [name for family in families() for name in family.types]
    for names, message in ((types, unknown_type), (list(POINTS), unknown_point)):
        assert ", ".join(names) in str(message.value)
    for name in (*types, *POINTS, *TO):
        assert f"`{name}`" in page, name
