"""Run folders of format 1 load, and compute what the version that wrote them computed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import format_1, run_folder
from regard.data.config import Direction
from regard.data.sources.trees import ParsedText, Tree
from regard.decoding.config import DecodingConfig
from regard.errors import RunError
from regard.insight.heads.pruning import prune
from regard.insight.look import look
from regard.interchange.exports import huggingface
from regard.interchange.importing import import_model
from regard.merged_run import read_merged
from regard.models.base import ModelSpec
from regard.training.init.merge_adapter import merge
from regard.training.recipe import make_recipe
from regard.training.trainer import resume, train

FIXTURES = Path(__file__).parent / "fixtures" / "format-1"
RUNS = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
NAMES = json.loads((FIXTURES / "parameters.json").read_text(encoding="utf-8"))
TOLERANCE = {"rel": 1e-5, "abs": 1e-5}  # kernels differ between processors


@pytest.fixture(params=RUNS, scope="module")
def run(request: pytest.FixtureRequest) -> tuple[Any, dict[str, Any]]:
    """Return what the folder loads as, and the outputs of the version that wrote it."""
    folder = FIXTURES / request.param
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return regard.load(folder), expected


def test_logits_are_unchanged(run: tuple[Any, dict[str, Any]]) -> None:
    predictor, expected = run
    logits = expected["logits"]
    if logits is None:  # inputs with trees: test_outputs_are_unchanged checks the probabilities
        assert "classify" in expected
        return
    with torch.inference_mode():
        computed = predictor.model(*map(torch.tensor, logits["arguments"])).double()
    assert list(computed.shape) == logits["shape"]
    assert computed.flatten()[:8].tolist() == pytest.approx(logits["first"], **TOLERANCE)
    assert float(computed.sum()) == pytest.approx(logits["sum"], rel=1e-5, abs=1e-3)
    assert float((computed**2).sum()) == pytest.approx(logits["squares"], rel=1e-5)


def test_outputs_are_unchanged(run: tuple[Any, dict[str, Any]]) -> None:
    predictor, expected = run
    checks = {
        "translate": _check_translations,
        "summarize": _check_summaries,
        "generate": _check_continuations,
        "classify": _check_probabilities,
        "fill": _check_fillings,
        "embed": _check_vectors,
    }
    methods = [method for method in checks if method in expected]
    assert len(methods) == 1
    checks[methods[0]](predictor, expected[methods[0]])


def _check_translations(translator: Any, expected: dict[str, Any]) -> None:
    lines, to = expected["lines"], expected["to"]
    assert translator.translate(lines, to=to) == expected["greedy"]
    decoding = DecodingConfig(beam=expected["beam"], n_best=expected["n_best"])
    _check_candidates(translator.candidates(lines, to=to, decoding=decoding), expected)
    scores = translator.score(lines, expected["references"], to=to)
    assert [score.total for score in scores] == pytest.approx(expected["scores"], **TOLERANCE)


def _check_summaries(summarizer: Any, expected: dict[str, Any]) -> None:
    texts = expected["texts"]
    assert summarizer.summarize(texts) == expected["greedy"]
    decoding = DecodingConfig(beam=expected["beam"], n_best=expected["n_best"])
    _check_candidates(summarizer.candidates(texts, decoding=decoding), expected)
    scores = summarizer.score(texts, expected["summaries"])
    assert [score.total for score in scores] == pytest.approx(expected["scores"], **TOLERANCE)


def _check_candidates(candidates: list[list[Any]], expected: dict[str, Any]) -> None:
    for ranked, reference in zip(candidates, expected["candidates"], strict=True):
        assert [text.text for text in ranked] == [text for text, _ in reference]
        scores = [score for _, score in reference]
        assert [text.score for text in ranked] == pytest.approx(scores, **TOLERANCE)


def _check_continuations(generator: Any, expected: dict[str, Any]) -> None:
    prompts, tokens = expected["prompts"], expected["tokens"]
    assert [generator.generate(prompt, tokens) for prompt in prompts] == expected["greedy"]
    decoding = DecodingConfig(beam=expected["beam"], n_best=expected["n_best"])
    assert generator.candidates(prompts, tokens, decoding) == expected["candidates"]
    scores = generator.score(expected["texts"])
    assert [score.total for score in scores] == pytest.approx(expected["scores"], **TOLERANCE)


def _check_probabilities(classifier: Any, expected: dict[str, Any]) -> None:
    texts = expected.get("texts") or [
        ParsedText(tree["text"], Tree(tuple(map(tuple, tree["spans"])), tuple(tree["heads"])))
        for tree in expected["trees"]
    ]
    predictions = classifier.classify(texts)
    for prediction, probabilities in zip(predictions, expected["probabilities"], strict=True):
        assert dict(prediction.probabilities) == pytest.approx(probabilities, **TOLERANCE)


def _check_fillings(filler: Any, expected: dict[str, Any]) -> None:
    blanks = filler.fill(expected["text"], top=3)
    for fillings, reference in zip(blanks, expected["fillings"], strict=True):
        assert [filling.text for filling in fillings] == [text for text, _ in reference]
        probabilities = [p for _, p in reference]
        assert [f.probability for f in fillings] == pytest.approx(probabilities, **TOLERANCE)
    if "scores" in expected:
        scores = filler.score(expected["texts"])
        assert [score.total for score in scores] == pytest.approx(expected["scores"], **TOLERANCE)


def _check_vectors(embedder: Any, expected: dict[str, Any]) -> None:
    vectors = embedder.embed(expected["texts"])
    torch.testing.assert_close(vectors, torch.tensor(expected["vectors"]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_every_parameter_has_its_new_name(number: int) -> None:
    case = NAMES[number]
    description = {"job": "encoder", "model": case["model"], "details": {}}
    spec = format_1.upgrade_description(description)["model"]
    with torch.device("meta"):
        model = ModelSpec.model_validate(spec).build(11)
    # In order: a tied parameter has the name that comes first.
    names = [name for name, _ in model.named_parameters()]
    assert [format_1.upgrade_name(name) for name in case["parameters"]] == names


def test_an_adapter_is_merged_into_a_run_of_today(tmp_path: Path) -> None:
    merge(FIXTURES / "lora", tmp_path / "merged")
    assert _format(tmp_path / "merged") == run_folder.FORMAT == 3
    expected = json.loads((FIXTURES / "lora" / "expected.json").read_text(encoding="utf-8"))
    _check_translations(regard.load(tmp_path / "merged"), expected["translate"])


def test_an_adapter_refuses_another_base(tmp_path: Path) -> None:
    for name in ("lora", "pruned"):
        shutil.copytree(FIXTURES / name, tmp_path / name)
    (tmp_path / "pruned").rename(tmp_path / "translator")
    with pytest.raises(RunError, match="holds another model than the one that was used"):
        regard.load(tmp_path / "lora")


def test_a_run_of_today_adapts_a_base_of_format_1(tmp_path: Path) -> None:
    lines = json.loads((FIXTURES / "translator" / "expected.json").read_text())["translate"]
    pairs = zip(lines["lines"], lines["references"], strict=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{one}\t{two}\n" for one, two in pairs))
    source = {"kind": "tsv", "path": str(tmp_path / "pairs.tsv"), "languages": ["en", "fr"]}
    recipe = make_recipe(
        {
            "init": str(FIXTURES / "translator"),
            "adapter": {"kind": "lora", "rank": 2},
            "data": {
                "train": source,
                "dev": source,
                "prepared": str(tmp_path / "prepared"),
                "filters": {"eval_overlap": "keep"},
            },
            "training": {"steps": 1, "optimizer": {"learning_rate": 1e-9}},
        },
        (),
        "recipe",
    )
    trained = train(recipe, tmp_path / "run")
    assert trained.translate(lines["lines"], to=lines["to"]) == lines["greedy"]
    read = run_folder.read(tmp_path / "run")
    assert {line["status"] for line in read.details["init_report"]["lines"]} == {"kept"}
    loaded = regard.load(tmp_path / "run")
    assert loaded.translate(lines["lines"], to=lines["to"]) == lines["greedy"]


def test_a_run_is_exported_and_imported_again(tmp_path: Path) -> None:
    huggingface.export(read_merged(FIXTURES / "lora"), tmp_path / "exported")
    import_model(tmp_path / "exported", tmp_path / "imported", Direction("fr", "en"))
    old, new = (regard.load(run).model for run in (FIXTURES / "lora", tmp_path / "imported"))
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        logits = [model(ids, torch.ones_like(ids, dtype=torch.bool), ids) for model in (old, new)]
    torch.testing.assert_close(*logits)


def test_a_pruned_run_is_shown_and_pruned_further(tmp_path: Path) -> None:
    retained = run_folder.read(FIXTURES / "pruned").model["retained_heads"]
    encoder = look(regard.load(FIXTURES / "pruned"), "the cat sleeps", views=()).panels[0]
    shown = encoder.weights[0].any(axis=(1, 2)).sum()
    assert shown == len(retained["encoder.blocks.0.attention"]) == 2
    prune(FIXTURES / "pruned", tmp_path / "smaller", ["encoder.1.1"])
    assert _format(tmp_path / "smaller") == run_folder.FORMAT
    pruned = run_folder.read(tmp_path / "smaller").model["retained_heads"]
    assert pruned["encoder.blocks.0.attention"] == retained["encoder.blocks.0.attention"][1:]
    assert pruned["decoder.blocks.1.attention"] == retained["decoder.blocks.1.attention"]


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_of_format_1_is_not_resumed(finished: bool, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "translator", tmp_path / "run")
    if not finished:
        (tmp_path / "run" / "model.json").unlink()
    remedy = (
        r"`regard train RECIPE init=.*run`\.$" if finished else r"start over with `regard train`"
    )
    with pytest.raises(RunError, match=f"an earlier version of Regard and cannot be.*{remedy}"):
        resume(tmp_path / "run")


def _format(folder: Path) -> int:
    return int(json.loads((folder / "model.json").read_text(encoding="utf-8"))["format"])
