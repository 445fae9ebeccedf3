"""Commands that use a model import no torch and work without it; others say that they need it.

Without torch means with the requirements of `regard-runtime` only.
"""

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.data.batches.spans import sentinel
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.engine.library import library
from regard.errors import RunError
from regard.quantized_run import quantize
from regard.run_folder import path_of
from regard.tensor_files import map_tensors, read_tensors

from .random_run import write_random_run

pytestmark = pytest.mark.skipif(library() is None, reason="the engine was not built")

EN, FR = "the cat sleeps under the tree", "le chat dort sous l'arbre"
SIZES = {"dim": 32, "heads": 2, "ffn_dim": 48, "layers": 2, "max_length": 40}
BERT = {
    **SIZES,
    "norm_first": False,
    "position": "learned",
    "embedding_norm": True,
    "scale_embedding": False,
    "feed_forward": {"kind": "dense", "activation": "gelu"},
}

# What a command that uses a model must not import: each takes a tenth of a second or more.
HEAVY = {"torch", "safetensors", "pyarrow", "sympy", "transformers", "matplotlib", "yaml", "rich"}

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
# Modules that `regard` requires and `regard-runtime` does not.
NOT_IN_RUNTIME = {
    requirement.partition(">=")[0].replace("-", "_")
    for requirement in PROJECT["project"]["dependencies"]
} - set(PROJECT["tool"]["regard"]["runtime"])

RUN = """
import sys
sys.modules |= dict.fromkeys({absent})
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
    code = RUN.format(absent=NOT_IN_RUNTIME if absent else (), heavy=HEAVY)
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


@pytest.fixture(scope="module")
def masking_tokenizer() -> Tokenizer:
    special_tokens = ["mask", *map(sentinel, range(3))]
    return bpe.Spec(vocabulary=400).train([EN, FR] * 3, special_tokens)


@pytest.fixture(scope="module")
def masked(masking_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, model = tmp_path_factory.mktemp("masked") / "run", {**BERT, "transform": "gelu"}
    details = {"max_length": 40}
    return write_random_run(
        folder, "masked-lm", {"kind": "masked-lm", **model}, masking_tokenizer, details
    )


@pytest.fixture(scope="module")
def classifier(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier") / "run"
    model = {"kind": "classifier", "pooling": "attention", "classes": 3, **SIZES}
    details = {"max_length": 40, "labels": ["good", "bad", "odd"], "temperature": 0.7}
    return write_random_run(folder, "classification", model, tokenizer, details)


@pytest.fixture(scope="module")
def encoder(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder") / "run"
    return write_random_run(
        folder, "encoder", {"kind": "encoder", **BERT}, tokenizer, {"max_length": 40}
    )


def with_torch(predictor: regard.Predictor) -> regard.Predictor:
    """Return the predictor, computed by torch from now on."""
    predictor.model.register_forward_hook(lambda *_: None)  # hooks select torch
    return predictor


def test_score_imports_no_torch(masked: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(f"{EN}\n{FR}\n")
    code, printed, errors = command("score", masked, tmp_path / "text", absent=True)
    assert (code, len(printed), printed[-1]) == (0, 3, "[]"), errors
    expected = with_torch(regard.load_mask_filler(masked)).score([EN, FR])
    for line, score in zip(printed, expected, strict=False):
        assert float(line.split("\t")[0]) == pytest.approx(score.total, abs=1e-3)


def test_score_of_decoders_imports_no_torch(
    translator: Path, generator: Path, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text(EN), target.write_text(FR)
    for arguments in ((generator, source), (translator, source, target, "--to", "fr")):
        code, printed, errors = command("score", *arguments, absent=True)
        assert (code, len(printed), printed[-1]) == (0, 2, "[]"), errors


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("options", [[], ["--int8"], ["--int4"]], ids=" ".join)
def test_fill_imports_no_torch(masked: Path, absent: bool, options: list[str]) -> None:
    text = "the ___ sleeps under the ___"
    arguments = ("fill", masked, text, "--top", "4", "--json", *options)
    code, printed, errors = command(*arguments, absent=absent)
    assert (code, printed[-1]) == (0, "[]"), errors
    blanks = json.loads(printed[0])["blanks"]
    assert [len(blank) for blank in blanks] == [4, 4]
    if not options:
        expected = with_torch(regard.load_mask_filler(masked)).fill(text, top=4)
        for blank, fillings in zip(blanks, expected, strict=True):
            assert [each["text"] for each in blank] == [each.text for each in fillings]
            probabilities = [each.probability for each in fillings]
            assert [each["probability"] for each in blank] == pytest.approx(probabilities, rel=1e-4)


def test_fill_of_spans_imports_no_torch(masking_tokenizer: Tokenizer, tmp_path: Path) -> None:
    model, details = {"kind": "encoder-decoder", **SIZES}, {"max_length": 40, "sentinels": 3}
    folder = tmp_path / "run"
    write_random_run(folder, "span-corruption", model, masking_tokenizer, details)
    text = "the ___ under the ___"
    code, printed, errors = command("fill", folder, text, "--json", absent=True)
    assert (code, printed[-1]) == (0, "[]"), errors
    expected = with_torch(regard.load_span_filler(folder)).fill(text)
    blanks = json.loads(printed[0])["blanks"]
    assert [[each["text"] for each in blank] for blank in blanks] == [
        [each.text for each in blank] for blank in expected
    ]


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("options", [[], ["--int8"], ["--int4"]], ids=" ".join)
def test_classify_imports_no_torch(
    classifier: Path, tmp_path: Path, options: list[str], absent: bool
) -> None:
    (tmp_path / "text").write_text(f"{EN}\n\n{FR}\n")
    arguments = ("classify", classifier, tmp_path / "text", "--all", "--json", *options)
    code, printed, errors = command(*arguments, absent=absent)
    assert (code, len(printed), printed[-1]) == (0, 4, "[]"), errors
    if not options:
        expected = with_torch(regard.load_classifier(classifier)).classify([EN, FR])
        for line, prediction in zip([printed[0], printed[2]], expected, strict=True):
            probabilities = json.loads(line)["probabilities"]
            assert probabilities == pytest.approx(prediction.probabilities, abs=1e-4)


def test_quantized_classifier_imports_no_torch(classifier: Path, tmp_path: Path) -> None:
    quantize(classifier, tmp_path / "run")
    arguments = ("classify", tmp_path / "run", "--text", EN, "--json", "--all")
    code, printed, errors = command(*arguments, absent=True)
    assert (code, printed[-1]) == (0, "[]"), errors
    (expected,) = with_torch(regard.load_classifier(tmp_path / "run")).classify([EN])
    probabilities = json.loads(printed[0])["probabilities"]
    assert probabilities == pytest.approx(expected.probabilities, abs=1e-4)


def test_classify_of_a_table_imports_no_torch(classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text(f"{EN}\tgood\n{FR}\tbad\n")
    arguments = ("classify", classifier, tmp_path / "table.tsv")
    code, printed, errors = command(*arguments, absent=True)
    assert (code, len(printed)) == (0, 3), errors
    assert "torch" not in printed[-1]


@pytest.mark.parametrize("absent", [False, True])
def test_zero_shot_classification_imports_no_torch(generator: Path, absent: bool) -> None:
    labels = ("--label", "one= the tree", "--label", "two= sous")
    arguments = ("classify", generator, "--text", "the cat", "--template", "{text}", *labels)
    code, printed, errors = command(*arguments, absent=absent)
    assert (code, len(printed), printed[-1]) == (0, 2, "[]"), errors


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize(
    "options", [["--json"], ["--compare"], ["--int8"], ["--int4"]], ids=" ".join
)
def test_embed_imports_no_torch(
    encoder: Path, tmp_path: Path, options: list[str], absent: bool
) -> None:
    (tmp_path / "text").write_text(f"{EN}\n{FR}\n")
    code, printed, errors = command("embed", encoder, tmp_path / "text", *options, absent=absent)
    assert (code, len(printed), printed[-1]) == (0, 3, "[]"), errors
    if options == ["--json"]:
        vectors = np.array([json.loads(line)["vector"] for line in printed[:-1]], np.float32)
        expected = with_torch(regard.load_embedder(encoder)).embed([EN, FR])
        np.testing.assert_allclose(vectors, expected.numpy(), atol=1e-5)


def test_embed_writes_arrays_without_torch(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(f"{EN}\n{FR}\n")
    for name in ("vectors.npy", "vectors.safetensors"):
        arguments = ("embed", encoder, tmp_path / "text", "-o", tmp_path / name)
        code, printed, errors = command(*arguments, absent=True)
        assert code == 0, errors
        assert "torch" not in printed[-1]
    stored = load_file(tmp_path / "vectors.safetensors")["vectors"].numpy()
    assert np.array_equal(np.load(tmp_path / "vectors.npy"), stored)


def copy_with(folder: Path, copy: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Copy a run and change its model.json."""
    shutil.copytree(folder, copy)
    manifest = copy / "model.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    change(content)
    manifest.write_text(json.dumps(content), encoding="utf-8")
    return copy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda m: m["details"].update(labels=["a", "b"]),
            "there are 2 labels and the model has 3",
        ),
        (lambda m: m["details"].update(temperature=0), "details.temperature"),
        (lambda m: m["details"].update(label_format={"of": 1}), "details.label_format"),
        (lambda m: m["details"].update(end=10**6), "details.end"),
        (lambda m: m["sha256"].update({"tokenizer.json": "0" * 64}), "tokenizer"),
        (lambda m: m["model"].update(classes=4), "tensors of other names or shapes: output."),
        (lambda m: m["model"].update(pooling={"kind": "mean"}), "or shapes: pool.query"),
        (lambda m: m["model"].update(dim=64), "tensors of other names or shapes"),
        (lambda m: m["model"].update(kind="masked-lm"), "not of a kind that the engine computes"),
        (lambda m: m["details"].update(max_length=41), "texts longer than the model takes"),
        (lambda m: m["details"].update(tree_source={"kind": "conllu"}), "dependency trees"),
    ],
)
def test_classifiers_that_do_not_fit_are_refused_without_torch(
    classifier: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    folder = copy_with(classifier, tmp_path / "run", change)
    code, printed, errors = command("classify", folder, "--text", EN, absent=True)
    assert (code, printed) == (1, ["[]"]), errors
    assert message in errors
    assert errors.count("\n") == 1


def test_damaged_weights_are_refused_without_torch(encoder: Path, tmp_path: Path) -> None:
    shutil.copytree(encoder, tmp_path / "run")
    file = path_of(tmp_path / "run", "model.safetensors")
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    (tmp_path / "text").write_text(EN)
    code, _, errors = command("embed", tmp_path / "run", tmp_path / "text", absent=True)
    assert (code, errors.count("\n")) == (1, 1)
    assert file.name in errors


def test_a_masked_model_needs_its_mask_token(
    masked: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    model = json.loads((masked / "model.json").read_text(encoding="utf-8"))["model"]
    folder = tmp_path / "run"
    write_random_run(folder, "masked-lm", model, tokenizer, {"max_length": 40})
    code, _, errors = command("fill", folder, "a ___", absent=True)
    assert (code, errors.count("\n")) == (1, 1)
    assert "mask" in errors


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
        "regard: regard translate needs torch, which is not installed: pip install regard.",
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("train", ["{recipe}"]),
        ("check", ["{recipe}"]),
        ("resume", ["{run}"]),
        ("look", ["{run}", EN]),
        ("heads", ["{run}", "{text}"]),
        ("lab", []),
        ("export", ["{run}", "--to", "huggingface", "--output", "{text}.exported"]),
        ("quantize", ["{run}", "--output", "{text}.quantized"]),
    ],
)
def test_commands_that_need_torch_say_so(
    translator: Path, tmp_path: Path, name: str, arguments: list[str]
) -> None:
    text, recipe = tmp_path / "text.tsv", tmp_path / "recipe.yaml"
    text.write_text(f"{FR}\t{EN}\n" * 30)
    recipe.write_text(f"data: {{train: {{kind: tsv, path: {text}, languages: [fr, en]}}}}\n")
    values = [each.format(recipe=recipe, run=translator, text=text) for each in arguments]
    code, printed, errors = command(name, *values, absent=True)
    sentence = f"regard {name} needs torch, which is not installed: pip install regard."
    assert (code, errors) == (1, f"regard: {sentence}\n")
    assert "torch" not in printed[-1]


def test_other_modules_that_are_not_installed_are_named(translator: Path, tmp_path: Path) -> None:
    (tmp_path / "text.tsv").write_text(f"{EN}\t{FR}\n")
    arguments = ("evaluate", translator, tmp_path / "text.tsv", "--to", "fr")
    code, _, errors = command(*arguments, absent=True)
    sentence = "regard evaluate needs sacrebleu, which is not installed: pip install regard."
    assert (code, errors) == (1, f"regard: {sentence}\n")


def test_runs_that_the_engine_cannot_compute_need_torch(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    folder = write_random_run(
        tmp_path / "run",
        "language-model",
        {"kind": "language-model", "position": "relative", **SIZES},
        tokenizer,
        {"max_length": 40},
    )
    code, _, errors = command("generate", folder, absent=True)
    sentence = f"{folder}: this run needs torch (positions 'relative'): pip install regard."
    assert (code, errors) == (1, f"regard: {sentence}\n")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["doctor"], ["doctor", "--json"], ["data", "list"]],
    ids=" ".join,
)
def test_commands_without_a_model_need_no_torch(arguments: list[str]) -> None:
    code, printed, errors = command(*arguments, absent=True)
    assert (code, errors) == (0, "")
    if "--json" in arguments:
        row = json.loads("\n".join(printed[:-1]))["torch"]
        assert row["offered"] == "not installed"
        assert row["used"].endswith("pip install regard")


def test_python_functions_that_need_torch_say_so(translator: Path, encoder: Path) -> None:
    code = f"""
import sys
sys.modules |= dict.fromkeys({NOT_IN_RUNTIME})
import regard
embedder, translator = regard.load({str(encoder)!r}), regard.load_translator({str(translator)!r})
translator.translate([{EN!r}], "fr", max_tokens=5)
for function in (
    lambda: regard.train,
    lambda: embedder.embed([{EN!r}]),
    lambda: translator.model,
):
    try:
        function()
    except regard.RegardError as error:
        assert isinstance(error, ImportError)
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    users = ("regard.train", "Embedder.embed", "the torch module of a model")
    sentence = "needs torch, which is not installed: pip install regard."
    assert done.stdout.splitlines() == [f"{user} {sentence}" for user in users], done.stderr


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
