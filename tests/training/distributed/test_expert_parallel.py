"""Expert parallelism: three processes train the same weights as one.

The tests start this file in three processes, which train every case and write their weights.
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
FIRST = ["*.experts.0", "*.experts.1"]  # those of the main process
# Name: settings of the experts and of training
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "two experts in each process": (PLAIN, {}),
    "an uneven number of experts": (
        {**PLAIN, "num_experts": 7, "expert": "gated"},
        {"optimizer": "muon"},
    ),
    "no experts in the main process": (
        {**PLAIN, "num_experts": 2},
        {"max_grad_norm": 0.01, "ema_decay": 0.5},
    ),
    "all tokens to one expert": ({**PLAIN, "top_k": 1}, {"freeze": ["*.router"]}),
    "some experts frozen": (PLAIN, {"freeze": FIRST}),
    "only experts of other processes trained": (PLAIN, {"freeze": [*OTHERS, *FIRST]}),
    "limited capacity": ({**PLAIN, "capacity_factor": 0.6, "balance_loss": 0.1}, {}),
}


def copy_loss(model: nn.Module, batch: PairBatch) -> Tensor:
    assert isinstance(model, EncoderDecoder)
    targets, token_mask = batch.target[:, 1:], batch.target_mask[:, 1:]
    states = model.states(batch.source, batch.source_mask, batch.target[:, :-1], token_mask)
    return lm_head_loss(model, states, targets, token_mask, 0.0)


def learner(case: str, world: World) -> Learner:
    """Make a learner in double precision, so that rounding does not matter."""
    experts, overrides = CASES[case]
    defaults = {"steps": 100, "precision": "float32", "optimizer": "adamw", "expert_parallel": True}
    spec = validate(TrainingSpec, {**defaults, **overrides}, "recipe")
    torch.manual_seed(1)
    model = validate(ModelSpec, {**MODEL, "feed_forward": experts}, "recipe").build(V).double()
    if "*.router" in spec.freeze:  # equal logits: the same expert for all tokens
        for name, parameter in model.named_parameters():
            parameter.data *= "router" not in name
    return Learner(model, copy_loss, spec, world)


def batches(step: int) -> list[PairBatch]:
    """Return two batches for an update; the second leaves one or two processes without targets."""
    random = torch.Generator().manual_seed(step)

    def example() -> Example:
        length = int(torch.randint(1, 12, (), generator=random))
        ids = torch.randint(3, V, (length,), generator=random).tolist()
        return Example([*ids, END], [START, *ids, END])

    return [collate([example() for _ in range(rows)], PAD) for rows in (10, 1 + step % 2)]


def train_case(case: str, world: World) -> dict[str, Tensor]:
    """Return the weights for evaluation, and losses, norms and counts of every update."""
    trained, logged = learner(case, world), []
    for step in (1, 2, 3):
        micro_batches = batches(step)
        if world.size == 1:  # the shards of all processes, one after the other
            micro_batches = [
                batch.shard(rank, PROCESSES) for batch in micro_batches for rank in range(PROCESSES)
            ]
        update = trained.update(micro_batches, step, 0.0)
        assert update.applied
        logged.append([update.loss, update.grad_norm, update.aux_loss, *update.counts.values()])
    with trained.for_evaluation() as model:
        weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    assert any(weight.is_meta for weight in model.parameters()) == (world.size > 1)
    return {**weights, "logged": torch.tensor(logged, dtype=torch.float64)}


@pytest.fixture(scope="module")
def three_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of every case and rank."""
    folder = tmp_path_factory.mktemp("three-processes")
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(PROCESSES)]
    subprocess.run([sys.executable, "-m", *launcher, __file__, folder], check=True, timeout=600)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_expert_parallel_matches_one_process(case: str, three_processes: Path) -> None:
    expected = train_case(case, World())
    for rank in (0, PROCESSES - 1):
        weights = load_file(three_processes / f"{case}-{rank}.safetensors")
        assert weights.keys() == expected.keys()
        for name in expected:
            torch.testing.assert_close(
                weights[name], expected[name], rtol=1e-6, atol=1e-6, msg=name
            )


def test_limited_capacity_drops_assignments(three_processes: Path) -> None:
    logged = load_file(three_processes / "limited capacity-0.safetensors")["logged"]
    aux_loss, assignments, dropped = logged[:, 2:].unbind(1)
    assert (aux_loss > 0).all()
    assert (assignments > dropped).all()
    assert (dropped > 0).all()


def test_one_process_has_all_experts() -> None:
    model = learner("two experts in each process", World()).model
    mixtures = [layer for layer in model.modules() if isinstance(layer, MixtureOfExperts)]
    assert mixtures
    assert all(layer.dispatcher is None and len(layer.local_experts) == 6 for layer in mixtures)


def test_expert_parallel_without_experts_is_refused(tiny: Any, tmp_path: Path) -> None:
    recipe: Recipe = tiny("training.expert_parallel=true")
    with pytest.raises(ConfigError, match=r"training\.expert_parallel: this model has no experts"):
        train(recipe, tmp_path / "run")


def test_fsdp_with_expert_parallel_is_refused() -> None:
    with pytest.raises(ConfigError, match="they cannot be combined"):
        validate(TrainingSpec, {"fsdp": True, "expert_parallel": True}, "recipe")


if __name__ == "__main__":
    with distributed_world() as world:
        for name in CASES:
            path = Path(sys.argv[1]) / f"{name}-{world.rank}.safetensors"
            save_file(train_case(name, world), path)
