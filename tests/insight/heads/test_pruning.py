"""A pruned run equals the masked model, and loads like any other."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import regard
from regard import run_folder
from regard.engine.library import library
from regard.engine.select import pack_module
from regard.errors import ConfigError, OutputError
from regard.insight.heads.examples import read_examples
from regard.insight.heads.head_masks import masked_heads, without
from regard.insight.heads.head_names import attention, find_head, heads_of
from regard.insight.heads.losses import row_losses
from regard.insight.heads.pruning import choose, compared, head_count, prune, pruned
from regard.interchange.exports import huggingface
from regard.models.base import parameter_count
from regard.training.reporting.progress import Reporter

from .conftest import SIZES, Home, built, make_duplicates

GONE = {
    "encoder-decoder": ["encoder.1.1", "encoder.1.4", "decoder.2.2", "cross.1.3"],
    "language-model": ["decoder.1.1", "decoder.1.2", "decoder.2.4"],
    "classifier": ["encoder.1.3", "encoder.2.1"],
    "encoder": ["encoder.1.3", "encoder.2.1", "encoder.2.2"],
}
GROUPS = ["decoder.1.1", "decoder.1.2"]
POSITIONS = ["sinusoidal", "rotary", "alibi", "distance", "relative", "learned", "none"]


def outputs(model: torch.nn.Module, home: Home) -> torch.Tensor:
    (batch,) = home.examples.few(8).batches()
    with torch.no_grad():
        if hasattr(batch, "labels"):
            return model(batch.ids, batch.token_mask)[
                batch.token_mask if model_reads(model) else ...
            ]
        return row_losses(model, batch)[0]


def model_reads(model: torch.nn.Module) -> bool:
    return not hasattr(model, "output")


def check_equal_to_masked(home: Home, removed: list[str], output: Path) -> None:
    whole = home.loaded.model
    report = prune(home.run, output, removed)
    smaller = regard.load(output)
    with masked_heads(whole, without(whole, [find_head(whole, name) for name in removed])):
        masked = outputs(whole, home)
    torch.testing.assert_close(outputs(smaller.model, home), masked, rtol=1e-5, atol=1e-5)
    assert report.parameters[1] == parameter_count(smaller.model) < report.parameters[0]
    assert report.heads[1] == len(heads_of(smaller.model)) == report.heads[0] - len(removed)


@pytest.mark.parametrize("kind", GONE)
def test_pruned_equals_masked(make, tmp_path: Path, kind: str) -> None:
    check_equal_to_masked(make(kind), GONE[kind], tmp_path / "small")


@pytest.mark.parametrize("position", POSITIONS)
def test_pruned_equals_masked_with_every_kind_of_position(
    make, tmp_path: Path, position: str
) -> None:
    home = make("language-model", position=position)
    check_equal_to_masked(home, GONE["language-model"], tmp_path / "small")


@pytest.mark.parametrize(("kv_heads", "removed"), [(2, GROUPS), (1, GONE["language-model"])])
def test_pruned_equals_masked_with_shared_keys(
    make, tmp_path: Path, kv_heads: int, removed: list[str]
) -> None:
    home = make("language-model", kv_heads=kv_heads, position="rotary", bias=False)
    check_equal_to_masked(home, removed, tmp_path / "small")


def test_columns_of_a_removed_head_are_added_to_its_duplicate(make) -> None:
    home = make("language-model")
    model = home.loaded.model
    make_duplicates(attention(model, "decoder.blocks.0.attention"), 0, 1)
    smaller = pruned(model, [find_head(model, "decoder.1.2")])
    torch.testing.assert_close(outputs(smaller, home), outputs(model, home), rtol=1e-5, atol=1e-5)


def test_rows_and_columns_of_pruned_heads_are_removed(make, tmp_path: Path) -> None:
    home = make("encoder-decoder")
    prune(home.run, tmp_path / "small", GONE["encoder-decoder"])
    run = run_folder.read(tmp_path / "small")
    assert run.weights["encoder.blocks.0.attention.w_q.weight"].shape == (16, 32)
    assert run.weights["encoder.blocks.0.attention.w_k.bias"].shape == (16,)
    assert run.weights["encoder.blocks.0.attention.w_o.weight"].shape == (32, 16)
    assert run.model["retained_heads"] == {
        "encoder.blocks.0.attention": [1, 2],
        "decoder.blocks.1.attention": [0, 2, 3],
        "decoder.blocks.0.cross": [0, 1, 3],
    }
    assert run.details["pruned"]["heads"] == sorted(GONE["encoder-decoder"])


def test_pruned_run_loads_and_trains_like_any_other(make, tmp_path: Path) -> None:
    home = make("encoder-decoder")
    prune(home.run, tmp_path / "small", GONE["encoder-decoder"])
    smaller = regard.load(tmp_path / "small")
    from regard.insight.alignment import align
    from regard.insight.look import look

    assert len(smaller.translate(["Un chien court."], beam=3)) == 1
    assert smaller.score(["Un chien."], ["A dog."])[0].total < 0
    assert look(smaller, "Un chien court.").panel("encoder").weights.shape[1] == 4
    assert len(align(smaller, "Un chien court.", "A dog runs.")) == 3
    with pytest.raises(
        ConfigError, match=r"model\.retained_heads has no equivalent in Hugging Face"
    ):
        huggingface.export(run_folder.read(tmp_path / "small"), tmp_path / "theirs")


def test_pruned_run_can_be_pruned_again(make, tmp_path: Path) -> None:
    home = make("language-model")
    prune(home.run, tmp_path / "once", ["decoder.1.2"])
    prune(tmp_path / "once", tmp_path / "twice", ["decoder.1.2", "decoder.2.1"])
    assert run_folder.read(tmp_path / "twice").model["retained_heads"] == {
        "decoder.blocks.0.attention": [0, 3],
        "decoder.blocks.1.attention": [1, 2, 3],
    }
    model = home.loaded.model
    removed = [find_head(model, name) for name in ("decoder.1.2", "decoder.1.3", "decoder.2.1")]
    with masked_heads(model, without(model, removed)):
        masked = outputs(model, home)
    again = regard.load(tmp_path / "twice").model
    torch.testing.assert_close(outputs(again, home), masked, rtol=1e-5, atol=1e-5)


def test_share_of_heads_is_chosen_and_one_of_each_attention_stays(make, capsys) -> None:
    home = make("language-model")
    model = home.loaded.model
    assert len(choose(model, home.examples, 0.5)) == 4
    from rich.console import Console

    reporter = Reporter(Console())
    assert len(choose(model, home.examples, 0.95, reporter)) == 6
    assert "At least one head of each attention stays" in capsys.readouterr().out


@pytest.mark.parametrize(("share", "message"), [(1.5, "between 0 and 1"), (0.01, "less than one")])
def test_invalid_shares_are_refused(share: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        head_count(built("language-model"), share)


def test_invalid_prunings_are_refused(make, tmp_path: Path) -> None:
    home = make("language-model", kv_heads=2)
    output = tmp_path / "small"
    with pytest.raises(ConfigError, match=r"all 4 heads of decoder\.1 would be removed"):
        prune(home.run, output, [f"decoder.1.{number}" for number in (1, 2, 3, 4)])
    with pytest.raises(ConfigError, match="each 2 heads in a row share keys"):
        prune(home.run, output, ["decoder.1.1"])
    with pytest.raises(ConfigError, match=r"no head decoder\.7\.1"):
        prune(home.run, output, ["decoder.7.1"])
    assert not output.exists()
    with pytest.raises(OutputError, match="is the run that the new one is made from"):
        prune(home.run, home.run, GROUPS)
    encoder = make("encoder", "encoder")
    with pytest.raises(ConfigError, match="an encoder has no loss to choose heads by"):
        choose(encoder.loaded.model, encoder.examples, 0.5)


@pytest.mark.parametrize(
    ("retained", "message"),
    [
        ({"nowhere": [0]}, "no attention 'nowhere'"),
        ({"decoder.blocks.0.attention": []}, "at least one head"),
        ({"decoder.blocks.0.attention": [0, 9]}, "from 0 to 3"),
        ({"decoder.blocks.0.attention": [1, 0]}, "in order"),
    ],
)
def test_invalid_retained_heads_are_refused(retained: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built("language-model", retained_heads=retained)


@pytest.mark.skipif(library() is None, reason="the engine was not built")
@pytest.mark.parametrize("settings", [{}, {"position": "alibi"}, {"kv_heads": 2}])
def test_engine_computes_models_with_uneven_heads(settings: dict[str, object]) -> None:
    retained = {"decoder.blocks.0.attention": [0, 1]}
    uneven = built("language-model", retained_heads=retained, **settings)
    engine = pack_module(uneven, SIZES["max_length"])
    ids = torch.randint(4, 300, (2, 7))
    with torch.inference_mode():
        logits, state = engine.extend(ids[:, :6].numpy(), engine.start())
        assert_close(logits, uneven(ids[:, :6]))
        last, _ = engine.step(ids[:, 6].numpy(), state)
        assert_close(last, uneven(ids)[:, -1])


@pytest.mark.skipif(library() is None, reason="the engine was not built")
def test_engine_translates_with_uneven_heads() -> None:
    retained = {"encoder.blocks.1.attention": [3], "decoder.blocks.0.cross": [1, 2]}
    uneven = built("encoder-decoder", retained_heads=retained)
    engine = pack_module(uneven, SIZES["max_length"])
    source, target = torch.randint(4, 300, (2, 5)), torch.randint(4, 300, (2, 6))
    source_mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    with torch.inference_mode():
        state = engine.start(source.numpy(), source_mask.numpy())
        logits, _ = engine.extend(target.numpy(), state)
        assert_close(logits, uneven(source, source_mask, target))


def assert_close(actual: NDArray, expected: torch.Tensor) -> None:
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-4, atol=1e-4)


def test_both_models_are_timed_on_the_same_text(make, tmp_path: Path) -> None:
    home = make("classifier")
    prune(home.run, tmp_path / "small", GONE["classifier"])
    smaller = regard.load(tmp_path / "small")
    before, after = compared(home.loaded.model, smaller.model, home.examples)
    assert before.loss != after.loss
    assert min(before.seconds, after.seconds) > 0
    assert read_examples(smaller, home.data).rows == home.examples.rows
