"""Options of earlier versions are refused, and their new names exist."""

import pytest
import typer

from regard.cli import app
from regard.cli._shared.renamed import RENAMED

from .conftest import Call

OPTIONS = [(command, old, new) for command, table in RENAMED.items() for old, new in table.items()]


@pytest.mark.parametrize(("command", "old", "new"), OPTIONS)
def test_a_renamed_option_is_refused_with_its_new_name(
    call: Call, command: str, old: str, new: str
) -> None:
    result = call(command, f"{old}=1")
    assert result.code == 1
    assert result.err == f"regard: {command}: {old} was renamed to {new}.\n"
    assert call(command, "--", old).code != 1 or "renamed" not in call(command, "--", old).err


@pytest.mark.parametrize(("command", "old", "new"), OPTIONS)
def test_the_new_name_is_an_option_and_the_old_one_is_not(command: str, old: str, new: str) -> None:
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    options = {option for parameter in parameters for option in parameter.opts}
    assert new in options
    assert old not in options
