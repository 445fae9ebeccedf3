"""Experts spread over processes learn what they learn in one, whoever asks whom.

The tests start this file in three processes, which train, and write down what became of it.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.config import validate
from regard.data.batches.pairs import Example, PairBatch, collate
from regard.errors import ConfigError
from regard.layers.feedforward.moe import MixtureOfExperts
from regard.models.base import ModelSpec
from regard.models.encoder_decoder import EncoderDecoder
from regard.training.config import TrainingSpec
from regard.training.distributed.world import World, distributed_world
from regard.training.learner import Learner
from regard.training.loss import lm_head_loss
from regard.training.recipe import Recipe
from regard.training.trainer import train

PROCESSES = 3
PAD, START, END, V = 0, 1, 2, 20
MODEL = {
    "kind": "encoder-decoder",
    "dim": 16,
    "heads": 2,
    "ffn_dim": 32,
    "layers": 1,
    "dropout": 0.0,
}
PLAIN = {"kind": "moe", "num_experts": 6, "top_k": 2, "jitter": 0.0, "balance_loss": 0.0}
OTHERS = ["*embedding", "*attention", "*cross", "*norm", "*router", "*_residual*"]
FIRST = ["*.experts.0", "*.experts.1"]  # those of the leading process
# By name: the experts, and what is unusual in training
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "two each": (PLAIN, {}),
    "not as many each": ({**PLAIN, "num_experts": 7, "expert": "gated"}, {"optimizer": "muon"}),
    "none in the leading process": (
        {**PLAIN, "num_experts": 2},
        {"max_grad_norm": 0.01, "ema_decay": 0.5},
    ),
    "all words to one": ({**PLAIN, "top_k": 1}, {"freeze": ["*.router"]}),
    "some held still": (PLAIN, {"freeze": FIRST}),
    "nothing but others' experts moves": (PLAIN, {"freeze": [*OTHERS, *FIRST]}),
    "little room": ({**PLAIN, "capacity_factor": 0.6, "balance_loss": 0.1}, {}),
}


def copying(model: nn.Module, batch: PairBatch) -> Tensor:
    assert isinstance(model, EncoderDecoder)
    words, token_mask = batch.target[:, 1:], batch.target_mask[:, 1:]
    states = model.states(batch.source, batch.source_mask, batch.target[:, :-1], token_mask)
    return lm_head_loss(model, states, words, token_mask, 0.0)


def learner(case: str, where: World) -> Learner:
    """In double precision, so that rounding is out of the way."""
    experts, unusual = CASES[case]
    usual = {"steps": 100, "precision": "float32", "optimizer": "adamw", "expert_parallel": True}
    spec = validate(TrainingSpec, {**usual, **unusual}, "recipe")
    torch.manual_seed(1)
    model = validate(ModelSpec, {**MODEL, "feed_forward": experts}, "recipe").build(V).double()
    if "*.router" in spec.freeze:  # where none suits better, the same one is taken for all
        for name, parameter in model.named_parameters():
            parameter.data *= "router" not in name
    return Learner(model, copying, spec, where)


def batches(step: int) -> list[PairBatch]:
    """Two for an update; of the second, one process or two have nothing to predict."""
    random = torch.Generator().manual_seed(step)

    def example() -> Example:
        length = int(torch.randint(1, 12, (), generator=random))
        ids = torch.randint(3, V, (length,), generator=random).tolist()
        return Example([*ids, END], [START, *ids, END])

    return [collate([example() for _ in range(rows)], PAD) for rows in (10, 1 + step % 2)]


def learned(case: str, where: World) -> dict[str, Tensor]:
    """The weights as they would be judged, and what was told on the way."""
    each, told = learner(case, where), []
    for step in (1, 2, 3):
        given = batches(step)
        if where.size == 1:  # what each process looks at by itself, one after the other
            given = [batch.shard(rank, PROCESSES) for batch in given for rank in range(PROCESSES)]
        update = each.update(given, step, 0.0)
        assert update.applied
        told.append([update.loss, update.grad_norm, update.aux_loss, *update.counts.values()])
    with each.for_evaluation() as model:
        weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    assert any(weight.is_meta for weight in model.parameters()) == (where.size > 1)
    return {**weights, "told": torch.tensor(told, dtype=torch.float64)}


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the first and the last of several processes found, by case."""
    found = tmp_path_factory.mktemp("spread")
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(PROCESSES)]
    subprocess.run([sys.executable, "-m", *launcher, __file__, found], check=True, timeout=180)
    return found


@pytest.mark.parametrize("case", CASES)
def test_they_learn_what_they_learn_in_one_process(case: str, spread: Path) -> None:
    alone = learned(case, World())
    for rank in (0, PROCESSES - 1):
        found = load_file(spread / f"{case}-{rank}.safetensors")
        assert found.keys() == alone.keys()
        for name in alone:
            torch.testing.assert_close(found[name], alone[name], rtol=1e-6, atol=1e-6, msg=name)


def test_where_room_is_short_some_find_none(spread: Path) -> None:
    told = load_file(spread / "little room-0.safetensors")["told"]
    aux_loss, assignments, dropped = told[:, 2:].unbind(1)
    assert (aux_loss > 0).all()
    assert (assignments > dropped).all()
    assert (dropped > 0).all()


def test_alone_they_stay() -> None:
    model = learner("two each", World()).model
    mixtures = [each for each in model.modules() if isinstance(each, MixtureOfExperts)]
    assert mixtures
    assert all(each.dispatcher is None and len(each.local_experts) == 6 for each in mixtures)


def test_without_experts_there_is_nothing_to_spread(tiny: Any, tmp_path: Path) -> None:
    recipe: Recipe = tiny("training.expert_parallel=true")
    with pytest.raises(ConfigError, match=r"training\.expert_parallel: this model has no experts"):
        train(recipe, tmp_path / "run")


def test_not_both_in_parts_and_spread() -> None:
    with pytest.raises(ConfigError, match="they cannot be combined"):
        validate(TrainingSpec, {"fsdp": True, "expert_parallel": True}, "recipe")


if __name__ == "__main__":
    with distributed_world() as here:
        for each in CASES:
            save_file(learned(each, here), Path(sys.argv[1]) / f"{each}-{here.rank}.safetensors")
