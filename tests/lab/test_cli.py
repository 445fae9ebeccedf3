"""The command `regard lab`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import main

TINY = ("sizes=[4, 8]", "steps=2", "head_dim=16", "seeds=4")


def lab(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process and return its exit code, output and errors."""
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["regard", "lab", *arguments])
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    written = capsys.readouterr()
    return code, written.out, written.err


def test_claims_are_listed() -> None:
    command = [sys.executable, "-m", "regard", "lab"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert listed.returncode == 0
    assert "scaling" in listed.stdout


def test_report_is_written_and_reused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = lab(capsys, "scaling", *TINY, "--report", str(tmp_path))
    assert code == 0, err
    assert "Verdict:" in out
    assert "scaling.md" in (tmp_path / "README.md").read_text("utf-8")
    page = (tmp_path / "scaling.md").read_text("utf-8")
    assert "`regard lab scaling seeds=4 'sizes=[4, 8]' steps=2 head_dim=16`" in page
    before = (tmp_path / "scaling.json").stat().st_mtime_ns
    _, out, _ = lab(capsys, "scaling", *TINY, "--report", str(tmp_path), "--json")
    assert json.loads(out)["verdict"] in ("supported", "not supported here", "unclear")
    assert (tmp_path / "scaling.json").stat().st_mtime_ns == before


def test_quick_setting_has_figures_but_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("scaling", *TINY, "--quick", "--report", str(tmp_path))
    code, out, err = lab(capsys, *arguments)
    assert code == 0, err
    assert "no verdict: quick setting" in out
    assert "variance of q·k" in out
    for word in ("supported", "holds", "fails", "unclear", "Verdict"):
        assert word not in out.replace("no verdict", "")
    page = (tmp_path / "scaling.md").read_text("utf-8")
    assert "--quick`" in page
    _, out, _ = lab(capsys, *arguments, "--json")
    content = json.loads(out)
    assert (content["verdict"], content["quick"]) == (None, True)
    # A finding of a quick setting is not reused for a full one.
    _, out, _ = lab(capsys, "scaling", *TINY, "--report", str(tmp_path))
    assert "Verdict:" in out


def test_invalid_input_gets_a_one_line_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scaling.json").write_text("{}", encoding="utf-8")
    for arguments, message in [
        (("scalding",), "there is no claim 'scalding'"),
        (("scaling", "steps=none"), "steps"),
        (("scaling", "stepps=3"), "did you mean 'steps'"),
        (("all", "steps=3"), "a claim's own"),
        (("scaling", *TINY, "--report", str(tmp_path)), "not a file written by `regard lab`"),
    ]:
        code, _, err = lab(capsys, *arguments)
        assert code == 1
        assert message in err
        assert len(err.strip().splitlines()) == 1
