"""Commands that decode import no torch and work without it; others say that they need it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.engine.library import library
from regard.errors import RunError
from regard.run_folder import path_of
from regard.tensor_files import map_tensors, read_tensors

from .random_run import write_random_run

pytestmark = pytest.mark.skipif(library() is None, reason="the engine was not built")

EN, FR = "the cat sleeps under the tree", "le chat dort sous l'arbre"
SIZES = {"dim": 32, "heads": 2, "ffn_dim": 48, "layers": 2, "max_length": 40}

# What a command that decodes must not import: each takes a tenth of a second or more.
HEAVY = {"torch", "safetensors", "pyarrow", "sympy", "transformers", "matplotlib", "yaml", "rich"}

RUN = """
import sys
sys.modules["torch"] = None if {absent} else sys.modules.get("torch")
if not {absent}: del sys.modules["torch"]
sys.argv = ["regard", *sys.argv[1:]]
from regard.cli import main
try:
    main()
finally:
    print(sorted({heavy} & {{name for name, module in sys.modules.items() if module}}))
"""


def command(*arguments: object, absent: bool = False) -> tuple[int, list[str], str]:
    """Run a command; return the exit code, the lines of output and the errors.

    The last line of output lists the heavy modules that were imported.
    """
    code = RUN.format(absent=absent, heavy=HEAVY)
    call = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout.removesuffix("\n").split("\n"), done.stderr


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return bpe.Spec(vocabulary=400).train([EN, FR] * 3, ["fr", "en"])


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {"fr": [tokenizer.encode(FR)], "en": [tokenizer.encode(EN)]}
    return write_random_run(
        tmp_path_factory.mktemp("translator") / "run",
        "translation",
        {"kind": "encoder-decoder", "tie_embeddings": "none", **SIZES},
        tokenizer,
        {"directions": ["fr → en", "en → fr"], "max_length": 40},
        {"languages.json": LanguageIdentifier.learn(texts).to_json()},
    )


@pytest.fixture(scope="module")
def generator(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = {"kind": "language-model", "tie_embeddings": False, "position": "rotary", **SIZES}
    folder = tmp_path_factory.mktemp("generator") / "run"
    return write_random_run(folder, "language-model", model, tokenizer, {"max_length": 40})


@pytest.mark.parametrize("absent", [False, True])
def test_translate_imports_no_torch(translator: Path, tmp_path: Path, absent: bool) -> None:
    (tmp_path / "text").write_text(f"{EN}\n{EN[:12]}\n")
    options = ["--to", "fr", "--beam", "3", "--max-tokens", "9"]
    expected = regard.load_translator(translator)
    expected.model.register_forward_hook(lambda *_: None)  # hooks select torch
    lines = expected.translate([EN, EN[:12]], "fr", beam=3, max_tokens=9)
    code, printed, errors = command(
        "translate", translator, tmp_path / "text", *options, absent=absent
    )
    assert (code, printed) == (0, [*lines, "[]"]), errors
    options += ["--output", tmp_path / "out", "--int8", "--no-repeat-ngram", "2"]
    code, printed, errors = command(
        "translate", translator, tmp_path / "text", *options, absent=absent
    )
    assert (code, printed) == (0, ["[]"]), errors
    assert (tmp_path / "out").read_text().count("\n") == 2


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--beam", "2"],
        ["--temperature", "0.8", "--top-p", "0.9", "--sliding-window", "--max-tokens", "60"],
        ["--prompt-lookup", "--temperature", "1"],
    ],
    ids=" ".join,
)
def test_generate_imports_no_torch(generator: Path, options: list[str], absent: bool) -> None:
    arguments = ("generate", generator, "--prompt", "the cat", "--max-tokens", "9", *options)
    code, printed, errors = command(*arguments, absent=absent)
    assert code == 0, errors
    assert printed[0].startswith("the cat")
    assert printed[-1] == "[]"


def test_summarize_imports_no_torch(tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder, model = tmp_path / "run", {"kind": "encoder-decoder", **SIZES}
    details = {"max_length": 40, "max_summary_tokens": 5, "truncate_source": None}
    write_random_run(folder, "summarization", model, tokenizer, details)
    (tmp_path / "text").write_text(f"{EN}\n")
    code, printed, errors = command("summarize", folder, tmp_path / "text", absent=True)
    assert (code, printed[-1]) == (0, "[]"), errors


def test_torch_is_imported_where_attention_is_needed(translator: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(EN)
    arguments = (
        "translate",
        translator,
        tmp_path / "text",
        "--to",
        "fr",
        "--align",
        "--max-tokens",
        "9",
    )
    code, printed, errors = command(*arguments)
    assert code == 0, errors
    assert "torch" in printed[-1]
    code, _, errors = command(*arguments, absent=True)
    assert (code, errors.splitlines()[-1]) == (
        1,
        "regard: regard translate needs torch: pip install torch.",
    )


def test_commands_that_need_torch_say_so(tokenizer: Tokenizer, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    (tmp_path / "text.tsv").write_text(f"{FR}\t{EN}\n" * 30)
    recipe.write_text(
        f"data: {{train: {{kind: tsv, path: {tmp_path}/text.tsv, languages: [fr, en]}}}}\n"
    )
    code, _, errors = command("train", recipe, "--run", tmp_path / "run", absent=True)
    assert (code, errors) == (1, "regard: regard train needs torch: pip install torch.\n")
    masked = write_random_run(
        tmp_path / "other",
        "language-model",
        {"kind": "language-model", "position": "relative", **SIZES},
        tokenizer,
        {"max_length": 40},
    )
    code, _, errors = command("generate", masked, absent=True)
    sentence = f"{masked}: decoding this run needs torch (positions 'relative'): pip install torch."
    assert (code, errors) == (1, f"regard: {sentence}\n")
    assert command("--help", absent=True)[0] == 0


def test_module_is_built_when_it_is_first_used(translator: Path) -> None:
    loaded = regard.load_translator(translator)
    lines = [EN, FR]
    before = loaded.translate(lines, "fr", beam=2)
    assert loaded.engine_model.uses_engine
    assert not loaded._model.is_built
    stored, _ = read_tensors(path_of(translator, "model.safetensors"))
    built = dict(loaded.model.named_parameters())
    assert built.keys() == stored.keys()
    assert all(torch.equal(built[name], stored[name]) for name in stored)
    assert loaded.model is loaded.runner.model is loaded.engine_model.model
    assert loaded.translate(lines, "fr", beam=2) == before
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            parameter.add_(torch.randn_like(parameter))
    assert loaded.translate(lines, "fr", beam=2) != before


def test_weight_that_is_not_finite_is_refused_by_name(generator: Path, tmp_path: Path) -> None:
    name = "decoder.blocks.1.attention.w_o.weight"
    file = path_of(generator, "model.safetensors")
    weights = load_file(file)
    weights[name][3, 5] = float("nan")
    save_file(weights, tmp_path / "file")
    tensors, _ = map_tensors(tmp_path / "file")
    from regard.tensor_files import require_finite

    with pytest.raises(RunError, match=f"{name} has values that are not finite"):
        require_finite(tensors, "here")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_tensors_of_other_types_are_mapped(tmp_path: Path, dtype: torch.dtype) -> None:
    weights = {"a": torch.randn(3, 5).to(dtype), "b": torch.randn(7).to(dtype)}
    save_file(weights, tmp_path / "file")
    mapped, checksum = map_tensors(tmp_path / "file")
    assert checksum() == read_tensors(tmp_path / "file")[1]
    assert mapped.shapes == {"a": (3, 5), "b": (7,)}
    for name, tensor in weights.items():
        assert np.array_equal(mapped[name], tensor.double().numpy())
