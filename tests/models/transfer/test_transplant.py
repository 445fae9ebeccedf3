"""Parameters are copied by name and rows by what they stand for; everything is reported."""

from typing import Any

import pytest
import torch
from torch import nn

from regard.models.base import ModelSpec
from regard.models.transfer.transplant import (
    LABELS,
    PIECES,
    POSITIONS,
    Donor,
    Transplant,
    transplant,
)

SMALL = {"dim": 16, "heads": 2, "ffn_dim": 32, "layers": 2, "max_length": 12, "dropout": 0.0}
ABC = ("a", "b", "c", "d", "e", "f", "g")


def spec_of(kind: str, **more: Any) -> ModelSpec:
    return ModelSpec.model_validate({"kind": kind, **SMALL, **more})


def rows(spec: ModelSpec, pieces: tuple[str, ...], labels: tuple[str, ...]) -> Any:
    positions = [[str(position)] for position in range(spec.max_length)]
    return {PIECES: [[p] for p in pieces], POSITIONS: positions, LABELS: [[x] for x in labels]}


def moved(
    theirs: ModelSpec,
    ours: ModelSpec,
    pieces: tuple[tuple[str, ...], tuple[str, ...]] = (ABC, ABC),
    labels: tuple[tuple[str, ...], tuple[str, ...]] = (("no", "yes"), ("no", "yes")),
) -> tuple[nn.Module, nn.Module, nn.Module, Transplant]:
    """The donor, the new model before and after, and the result of each parameter."""
    torch.manual_seed(0)
    old, new = theirs.build(len(pieces[0])).eval(), ours.build(len(pieces[1])).eval()
    for parameter in (*old.parameters(), *new.parameters()):
        nn.init.normal_(parameter)  # norms and biases, too: nothing is equal by accident
    before = ours.build(len(pieces[1]))
    before.load_state_dict(new.state_dict())
    weights = {name: parameter.detach() for name, parameter in old.named_parameters()}
    donor = Donor(theirs, len(pieces[0]), weights, rows(theirs, pieces[0], labels[0]))
    own = rows(ours, pieces[1], labels[1])
    return old, before, new, transplant(new, ours, len(pieces[1]), own, donor)


def outcomes(done: Transplant) -> dict[str, str]:
    return {line.names: line.note or line.status for line in done.lines()}


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "relative", "rotary"])
@pytest.mark.parametrize("kind", ["encoder", "classifier", "language-model", "encoder-decoder"])
def test_same_architecture_keeps_every_parameter(kind: str, position: str) -> None:
    spec = spec_of(kind, position=position)
    old, _, new, done = moved(spec, spec)
    assert {line.status for line in done.lines()} == {"kept"}
    assert done.copied == sum(parameter.numel() for parameter in new.parameters())
    for one, other in zip(old.parameters(), new.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", ["encoder", "language-model", "encoder-decoder"])
def test_classifier_takes_the_encoder_of_any_model(kind: str) -> None:
    old, before, new, done = moved(spec_of(kind), spec_of("classifier"))
    stack = {"encoder": lambda: old, "language-model": lambda: old.decoder}.get(
        kind, lambda: old.encoder
    )()
    for name, parameter in new.encoder.named_parameters():
        assert torch.equal(parameter, stack.get_parameter(name)), name
    assert torch.equal(new.output.weight, before.output.weight)
    assert outcomes(done)["output"] == "added"
    assert ("decoder" in outcomes(done)) == (kind == "encoder-decoder")


def test_vocabulary_rows_are_matched_by_piece() -> None:
    spec = spec_of("language-model", tie_embeddings=False, output_bias=True)
    old, before, new, done = moved(spec, spec, (ABC, ("x", "g", "a", "y", "d")))
    for name in ("embedding.tokens.weight", "output.weight", "output.bias"):
        theirs, first, ours = (m.decoder.get_parameter(name) for m in (old, before, new))
        assert torch.equal(ours[[1, 2, 4]], theirs[[6, 0, 3]])
        assert torch.equal(ours[[0, 3]], first[[0, 3]])
        assert outcomes(done)[f"decoder.{name}"] == "3 of 5 pieces, and there were 7"
    assert outcomes(done)["decoder.blocks"] == "kept"


def test_rows_are_matched_by_role_when_names_differ() -> None:
    spec = spec_of("encoder")
    old, new = spec.build(3), spec.build(2)
    theirs = {PIECES: [["[CLS]", "<s>"], ["<s>"], ["cat"]]}
    donor = Donor(spec, 3, {n: p.detach() for n, p in old.named_parameters()}, theirs)
    transplant(new, spec, 2, {PIECES: [["<bos>", "<s>"], ["cat"]]}, donor)
    new_rows, old_rows = (model.embedding.tokens.weight for model in (new, old))
    assert torch.equal(new_rows, old_rows[[1, 2]]), (
        "a row is matched by name before it is matched by role"
    )


def test_matrix_of_vocabulary_size_is_not_matched_by_piece() -> None:
    """Its rows are not pieces: they keep their order when the vocabulary is reordered."""
    pieces = tuple(map(str, range(SMALL["dim"])))
    spec = spec_of("language-model", tie_embeddings=False)
    old, _, new, _ = moved(spec, spec, (pieces, pieces[::-1]))
    assert torch.equal(
        new.decoder.blocks[0].attention.w_q.weight, old.decoder.blocks[0].attention.w_q.weight
    )
    assert torch.equal(new.decoder.output.weight, old.decoder.output.weight.flip(0))


def test_tied_and_untied_models_exchange_parameters() -> None:
    tied, untied = spec_of("language-model"), spec_of("language-model", tie_embeddings=False)
    old, _, new, done = moved(tied, untied)
    assert torch.equal(new.decoder.output.weight, old.decoder.embedding.tokens.weight)
    assert {line.status for line in done.lines()} == {"kept"}
    old, _, new, done = moved(untied, tied)
    assert torch.equal(new.decoder.output.weight, old.decoder.embedding.tokens.weight)
    assert outcomes(done)["decoder.output"] == "dropped"


def test_common_positions_are_copied() -> None:
    old, before, new, done = moved(
        spec_of("encoder", position="learned", max_length=8),
        spec_of("encoder", position="learned", max_length=11),
    )
    table = new.embedding.position.table
    assert torch.equal(table[:8], old.embedding.position.table)
    assert torch.equal(table[8:], before.embedding.position.table[8:])
    assert outcomes(done)["embedding.position.table"] == "8 of 11 positions, and there were 8"


def test_label_rows_are_matched_by_name() -> None:
    old, _, new, done = moved(
        spec_of("classifier"),
        spec_of("classifier", classes=3),
        labels=(("bad", "good"), ("good", "so-so", "bad")),
    )
    assert torch.equal(new.output.weight[[0, 2]], old.output.weight[[1, 0]])
    assert outcomes(done)["output.bias"] == "2 of 3 labels, and there were 2"
    assert "output.weight" not in done.whole


def test_other_labels_are_not_copied() -> None:
    spec = spec_of("classifier")
    _, before, new, done = moved(spec, spec, labels=(("bad", "good"), ("0", "1")))
    assert torch.equal(new.output.weight, before.output.weight)
    assert outcomes(done)["output.weight"] == "0 of 2 labels"


def test_parameters_of_another_shape_stay_initialized_and_are_reported() -> None:
    _, before, new, done = moved(spec_of("encoder"), spec_of("encoder", ffn_dim=48, layers=3))
    assert torch.equal(
        new.blocks[0].feed_forward.up_proj.weight, before.blocks[0].feed_forward.up_proj.weight
    )
    report = outcomes(done)
    assert (
        report["blocks.0–1.feed_forward.up_proj.weight"] == "starts fresh: 48 × 16, and was 32 × 16"
    )
    assert report["blocks.0–1.feed_forward.down_proj.bias"] == "starts fresh, as its matrix"
    assert torch.equal(
        new.blocks[0].feed_forward.down_proj.bias, before.blocks[0].feed_forward.down_proj.bias
    )
    assert report["blocks.2"] == "added"
    assert report["blocks.0–1.attention"] == "kept"


def test_experts_are_copied_and_additional_ones_added() -> None:
    few, many = ({"kind": "moe", "num_experts": count} for count in (2, 3))
    old, before, new, done = moved(
        spec_of("encoder", feed_forward=few), spec_of("encoder", feed_forward=many)
    )
    mixtures = (model.blocks[0].feed_forward for model in (old, before, new))
    was, fresh, now = mixtures
    for number in range(2):
        assert torch.equal(now.experts[number].up_proj.weight, was.experts[number].up_proj.weight)
    assert torch.equal(now.experts[2].up_proj.weight, fresh.experts[2].up_proj.weight)
    assert torch.equal(now.router.weight, fresh.router.weight)
    report = [outcome for name, outcome in outcomes(done).items() if name.endswith("router.weight")]
    assert report == ["starts fresh: 3 × 16, and was 2 × 16"]


def test_every_parameter_is_reported_once() -> None:
    theirs = spec_of("encoder-decoder", layers=3)
    ours = spec_of("classifier", ffn_dim=48)
    old, _, new, done = moved(theirs, ours, (ABC, ABC[:4]))

    def count(*kinds: str) -> int:
        return sum(line.parameters for line in done.lines() if line.status in kinds)

    assert count("kept", "changed", "added") == sum(p.numel() for p in new.parameters())
    gone = (old.decoder, old.encoder.blocks[2])  # tied embeddings are the encoder's
    expected = sum(p.numel() for module in gone for p in module.parameters())
    assert count("dropped") == expected - old.decoder.output.weight.numel()
