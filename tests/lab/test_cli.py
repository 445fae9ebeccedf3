"""regard lab, as a person calls it."""

import json
import subprocess
import sys
from pathlib import Path

TINY = ("sizes=[4, 8]", "steps=2", "key_size=16", "seeds=2")


def lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", "lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_without_a_name_all_are_listed() -> None:
    listed = lab()
    assert listed.returncode == 0
    assert "scaling" in listed.stdout


def test_a_report_is_written_and_not_measured_again(tmp_path: Path) -> None:
    first = lab("scaling", *TINY, "--report", str(tmp_path))
    assert first.returncode == 0, first.stderr
    assert "Verdict:" in first.stdout
    assert "scaling.md" in (tmp_path / "README.md").read_text("utf-8")
    told = (tmp_path / "scaling.md").read_text("utf-8")
    assert "`regard lab scaling seeds=2 'sizes=[4, 8]' steps=2 key_size=16`" in told
    before = (tmp_path / "scaling.json").stat().st_mtime_ns
    told = lab("scaling", *TINY, "--report", str(tmp_path), "--json")
    assert json.loads(told.stdout)["verdict"] in ("supported", "not supported here", "unclear")
    assert (tmp_path / "scaling.json").stat().st_mtime_ns == before


def test_wrong_input_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "scaling.json").write_text("{}", encoding="utf-8")
    for arguments, said in [
        (("scalding",), "there is no claim 'scalding'"),
        (("scaling", "steps=none"), "steps"),
        (("scaling", "stepps=3"), "did you mean 'steps'"),
        (("all", "steps=3"), "a claim's own"),
        (("scaling", *TINY, "--report", str(tmp_path)), "is not what `regard lab` writes"),
    ]:
        wrong = lab(*arguments)
        assert wrong.returncode == 1
        assert said in wrong.stderr
        assert len(wrong.stderr.strip().splitlines()) == 1
