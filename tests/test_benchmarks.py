"""The page of the benchmarks has what the scripts compute; the engines run as they are meant to."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.engine.library import library

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SIZES = {"dim": 32, "heads": 2, "ffn_dim": 64, "layers": 1, "max_length": 80}
KINDS = {"translation": "encoder-decoder", "language-model": "language-model"}
RUN = """
import runpy, sys
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
assert "torch" not in sys.modules
"""


def test_benchmark_page_equals_its_stored_results() -> None:
    pytest.importorskip("selenium")  # benchmarks/page.py imports it
    command = [sys.executable, str(BENCHMARKS / "report.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_rows_of_another_instruction_set_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import report

    page = tmp_path / "page.md"
    page.with_suffix("").mkdir()
    monkeypatch.setattr(report, "PAGES", {"benchmarks": page})
    monkeypatch.setattr(report, "machine", lambda: {"isa": "avx2"})

    def row(name: str, value: int) -> dict[str, Any]:
        return {"name": name, "value": value}

    stored = {"neon": {"rows": [row("a", 1)]}, "avx2": {"rows": [row("a", 2), row("b", 3)]}}
    (tmp_path / "page" / "decoding.json").write_text(json.dumps(stored))
    results = report.with_stored_rows("decoding", [row("b", 4), row("c", 5)])
    assert results["neon"] == stored["neon"]
    assert results["avx2"]["rows"] == [row("a", 2), row("b", 4), row("c", 5)]
    assert report.with_stored_rows("new", [row("a", 6)])["avx2"]["rows"] == [row("a", 6)]


@pytest.mark.skipif(library() is None, reason="the engine was not built")
def test_llama_cpp_generates_the_same_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp")
    pytest.importorskip("gguf")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import llama_cpp
    from engine_process import run_engine

    models = llama_cpp.write_models(llama_cpp.SMOKE, tmp_path)
    work = {"lines": llama_cpp.prompts(llama_cpp.SMOKE, 2), "tokens": 8, "batch": 2, "seconds": 0}
    outputs = [
        run_engine(script, {**work, "model": str(models[script])}, tmp_path)["outputs"]
        for script in ("regard_engine.py", "llama_engine.py")
    ]
    assert outputs[0] == outputs[1]
    assert all(len(text.split()) == 8 for text in outputs[0])


@pytest.mark.skipif(library() is None, reason="the engine was not built")
@pytest.mark.parametrize("task", KINDS)
def test_regard_is_measured_without_torch(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from random_run import TEXTS, small_tokenizer, write_random_run

    model = {"kind": KINDS[task], **SIZES}
    write_random_run(tmp_path / "run", task, model, small_tokenizer())
    engine, work, out = BENCHMARKS / "engines" / "regard_engine.py", tmp_path / "w", tmp_path / "o"
    common = {"model": str(tmp_path / "run"), "lines": list(TEXTS.values()), "beam": 5}
    common |= {"tokens": 9 * (task == "language-model"), "seconds": 0}
    for settings in ({"bits": 32, "early_stopping": False}, {"bits": 8, "batch": 2}, {"bits": 4}):
        work.write_text(json.dumps({**common, **settings}))
        call = [sys.executable, "-c", RUN, str(engine), str(work), str(out)]
        done = subprocess.run(call, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert len(json.loads(out.read_text())["outputs"]) == 2
