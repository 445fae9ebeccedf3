"""Chat templates of Hugging Face folders are kept in run folders."""

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import run_folder
from regard.errors import DataError, RunError
from regard.interchange.importing import import_model

from .conftest import byte_level, saved
from .test_importing import llama

TEMPLATE = "{% for message in messages %}<s>{{ message.content }}</s>{% endfor %}"
TOOLS = {"name": "tool_use", "template": "{{ tools }}"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = byte_level(["<unk>", "<s>", "</s>"])
    folder = tmp_path_factory.mktemp("chat") / "theirs"
    return saved(llama(tokenizer.get_vocab_size()), tokenizer, folder)


@pytest.mark.parametrize(
    ("name", "content", "template"),
    [
        ("chat_template.jinja", TEMPLATE, TEMPLATE),
        ("tokenizer_config.json", {"chat_template": TEMPLATE}, TEMPLATE),
        ("chat_template.json", {"chat_template": TEMPLATE}, TEMPLATE),
        (
            "tokenizer_config.json",
            {"chat_template": [TOOLS, {"name": "default", "template": TEMPLATE}]},
            TEMPLATE,
        ),
        ("tokenizer_config.json", {"chat_template": [TOOLS]}, None),
        ("tokenizer_config.json", {"chat_template": None}, None),
        ("tokenizer_config.json", {}, None),
    ],
)
def test_template_is_kept(
    source: Path, tmp_path: Path, name: str, content: Any, template: str | None
) -> None:
    file = source / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    try:
        import_model(source, tmp_path / "run")
    finally:
        file.unlink()
    assert regard.load_language_model(tmp_path / "run").chat_template == template
    manifest = run_folder.describe(tmp_path / "run")
    assert (run_folder.CHAT_TEMPLATE in manifest.sha256) == (template is not None)


def test_a_file_in_the_run_folder_replaces_the_template(source: Path, tmp_path: Path) -> None:
    import_model(source, tmp_path / "run")
    file = tmp_path / "run" / run_folder.CHAT_TEMPLATE
    file.write_text("é", "utf-8")
    assert regard.load_language_model(tmp_path / "run").chat_template == "é"
    file.write_bytes(b"\xff")
    with pytest.raises(RunError, match=r"chat_template\.jinja: cannot be read as text"):
        regard.load_language_model(tmp_path / "run")


def test_a_template_that_is_no_text_is_refused(source: Path, tmp_path: Path) -> None:
    file = source / "tokenizer_config.json"
    file.write_text('{"chat_template": 5}', "utf-8")
    try:
        with pytest.raises(DataError, match=r"tokenizer_config\.json: chat_template is 5, not"):
            import_model(source, tmp_path / "run")
    finally:
        file.unlink()
