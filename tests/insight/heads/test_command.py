"""The command `regard heads` on tiny runs: figures, pages, pruned runs and invalid input."""

import json
import re
from pathlib import Path

import pytest
import torch

import regard
from regard.models.base import ModelSpec
from regard.models.weights import weights_of
from regard.training.config import TrainingSpec

from .conftest import SIZES


def test_study_of_a_translator(make, command) -> None:
    home = make("encoder-decoder", decoder_layers=1)
    answer = command(home.run, home.data, "--bleu")
    assert answer.code == 0, answer.err
    assert "encoder.2.4" in answer.out
    assert re.search(r"\d+ of 16 heads can be removed for 0.5 BLEU", answer.out)
    folder = home.run / "heads"
    report = json.loads((folder / "heads.json").read_text())
    assert len(report["heads"]) == 16
    assert report["heads"][0]["loss_rise"] is not None
    assert len(report["similarity"]["cross"]["map"]) == 4
    assert report["similarity"]["cross"]["means_before_training"]["cka"]["within_layers"] > 0
    assert len(report["ablation"]["steps"]) == 13
    page = (folder / "heads.html").read_text()
    assert "default-src 'none'" in page
    assert page.count("<svg") == 4
    assert "<script" not in page
    assert not re.search(r'(src|href)="https?:', page)
    drawn = {path.stem for path in folder.glob("*.svg")}
    assert drawn == {"importance", "map", "similarity", "ablation"}


@pytest.mark.parametrize("kind", ["language-model", "classifier"])
def test_study_of_other_models(make, command, tmp_path: Path, kind: str) -> None:
    home = make(kind)
    answer = command(home.run, home.data, "-o", tmp_path / "found", "--tolerance", "20")
    assert answer.code == 0, answer.err
    assert "of 8 heads can be removed for 20 % of the loss" in answer.out
    assert json.loads((tmp_path / "found" / "heads.json").read_text())["loss"] > 0
    assert not (home.run / "heads").exists()


def test_study_with_grouped_keys(make, command, tmp_path: Path) -> None:
    llama = {"position": "rotary", "norm": "rms", "feed_forward": "gated", "bias": False}
    home = make("language-model", kv_heads=2, **llama)
    assert command(home.run, home.data).code == 0
    answer = command(home.run, home.data, "--prune", 0.5, "-o", tmp_path / "small")
    assert answer.code == 0, answer.err
    assert len(regard.load(tmp_path / "small").generate("The", 5)) >= 0


def test_study_of_an_encoder_reports_that_it_has_no_loss(make, command) -> None:
    home = make("encoder")
    answer = command(home.run, home.data)
    assert answer.code == 0, answer.err
    assert "An encoder has no loss" in answer.out
    report = json.loads((home.run / "heads" / "heads.json").read_text())
    assert "ablation" not in report
    assert "loss_rise" not in report["heads"][0]
    assert report["similarity"]["encoder"]["divergence"]


def test_divergence_over_training_by_checkpoint(make, command, learner_for) -> None:
    home = make("language-model")
    learner_for(home, steps=(5, 10))
    answer = command(home.run, home.data)
    assert answer.code == 0, answer.err
    divergences = json.loads((home.run / "heads" / "heads.json").read_text())["training"]
    assert [entry["step"] for entry in divergences] == [0, 5, 10]
    assert all(0 < entry["divergence"]["decoder"]["all"] < 1 for entry in divergences)
    assert (home.run / "heads" / "training.svg").exists()


@pytest.fixture
def learner_for(tokenizer):
    """Checkpoints as training writes them, of models of chance."""
    from regard.training import checkpoint
    from regard.training.checkpoint import TrainState
    from regard.training.distributed.world import World
    from regard.training.learner import Learner

    def write(home, steps: tuple[int, ...]) -> None:
        spec = ModelSpec.model_validate({"kind": "language-model", **SIZES})
        for step in steps:
            torch.manual_seed(step)
            learner = Learner(
                spec.build(len(tokenizer)),
                lambda model, batch: model(batch).sum(),
                TrainingSpec(steps=100),
                World(),
            )
            assert weights_of(learner.model)
            checkpoint.save(learner, TrainState(step=step), home.run, keep=5)

    return write


def test_pruned_run_is_written(make, command, tmp_path: Path) -> None:
    home = make("encoder-decoder")
    answer = command(home.run, home.data, "--prune", "0.5", "-o", tmp_path / "small")
    assert answer.code == 0, answer.err
    assert re.search(r"before +24 +[\d,]+ +[\d.]+ +[\d.]+", answer.out)
    assert re.search(r"after +12 +[\d,]+ +[\d.]+ +[\d.]+", answer.out)
    assert command(tmp_path / "small", home.data, "--max-lines", "2").code == 0
    named = command(home.run, home.data, "--remove", "cross.1.2", "--remove", "cross.1.3")
    assert named.code == 0, named.err
    assert "Removed heads: cross.1.2, cross.1.3." in named.out
    assert regard.load(home.run / "pruned").translate(["Un chien."])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--prune", "1.5"], "--prune 1.5: give the share of heads to remove, between 0 and 1"),
        (["--prune", "0"], "between 0 and 1"),
        (["--prune", "0.01"], "less than one of 8 heads"),
        (["--prune", "0.5", "--remove", "encoder.1.1"], "give one of the two"),
        (["--prune", "0.5", "--bleu"], "no effect on pruning: leave them out"),
        (["--remove", "encoder.1.9"], "there is no head encoder.1.9"),
        (["--remove", "encoder.5.1"], "there is no head encoder.5.1"),
        (["--remove", "nonsense"], "is not a head"),
        ([f"--remove=encoder.1.{n}" for n in (1, 2, 3, 4)], "at least one must stay"),
        (["--bleu"], "--bleu needs a translator"),
        (["--to", "fr"], "need a translator"),
        (["-o", "/dev/null/nowhere"], "cannot be written"),
        (["--prune", "0.5", "-o", "/dev/null/nowhere"], "cannot be written"),
    ],
)
def test_invalid_input_gets_a_one_line_error(
    make, command, arguments: list, complaint: str
) -> None:
    home = make("classifier")
    answer = command(home.run, home.data, *arguments)
    assert answer.code == 1, answer.out
    assert answer.err.startswith("regard: ")
    assert complaint in answer.err
    assert answer.err.count("\n") == 1


def test_missing_data_and_missing_run_are_refused(make, command, tmp_path: Path) -> None:
    home = make("classifier")
    assert "cannot be read" in command(home.run, tmp_path / "nowhere.tsv").err
    assert "no such run folder" in command(tmp_path / "nowhere", home.data).err


def test_every_column_has_a_legend_with_its_unit(make, command) -> None:
    home = make("encoder-decoder", decoder_layers=1)
    answer = command(home.run, home.data)
    page = (home.run / "heads" / "heads.html").read_text()
    titles = re.findall(r"<th [^>]*>([^<]+)(?:<small>([^<]+)</small>)?</th>", page)
    legend = re.findall(r"<dt>([^<]+)</dt><dd>[^<]+</dd>", page)
    assert legend == [f"{title} ({unit})" if unit else title for title, unit in titles]
    units = dict(titles)
    assert [units[title] for title in ("entropy", "distance", "same", "rise", "grad")] == [
        *("bits", "tokens", "%"),
        *("% of the loss", "% of the loss"),
    ]
    for line in (r"^rise +% of the loss +increase of the loss", r"^dist +tokens ", r"^bits +bits "):
        assert re.search(line, answer.out, re.MULTILINE), line


def test_too_few_examples_are_flagged_with_how_many_would_do(make, command) -> None:
    home = make("language-model")
    answer = command(home.run, home.data, "--max-lines", 32)
    flag = r"\d windows are too few: .*\. About [\d,]+00 would do: give more data, or raise --max-"
    assert re.search(flag, " ".join(answer.err.split()))
    assert re.search(flag, (home.run / "heads" / "heads.html").read_text())


def test_figures_are_readable_on_a_phone(make, command, browser, emulated) -> None:
    home = make("encoder-decoder", decoder_layers=1)
    assert command(home.run, home.data).code == 0
    emulated(browser, width=390, height=844)
    browser.get((home.run / "heads" / "heads.html").as_uri())
    pixels_a_point = browser.execute_script(
        "return [...document.querySelectorAll('figure svg')].map(svg => "
        "svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)"
    )
    assert len(pixels_a_point) == 4
    assert min(pixels_a_point) >= 1.3  # text of 8 points is 10 pixels high
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    emulated(browser)
