"""Weights by name: models built from a file compute exactly what the trained ones computed."""

import json
import resource
import struct
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.config import kind_specs, kinds
from regard.errors import ConfigError, RunError
from regard.layers.activations.base import ActivationSpec
from regard.layers.feedforward.base import FeedForwardSpec
from regard.layers.norms.base import NormSpec
from regard.layers.pooling.base import PoolingSpec
from regard.layers.recurrent.base import CellSpec
from regard.models.base import ModelSpec
from regard.models.weights import build_with_weights, set_weights, weights_of
from regard.positions.trees import Trees
from regard.tensor_files import read_tensors

V = 30
SMALL = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 32}


def specs() -> list[dict[str, Any]]:
    """Return a description of every kind of model, and of one with every other kind."""
    described: list[dict[str, Any]] = []
    for spec in kind_specs(ModelSpec.package):
        for capability in sorted(spec.capabilities) or [None]:
            fields = {key: value for key, value in SMALL.items() if key in spec.model_fields}
            chosen = {"capability": capability} if "capability" in spec.model_fields else {}
            described.append({"kind": spec.kind(), **fields, **chosen})
    for key, kind, package in [
        ("attention", "language-model", "regard.attention"),
        ("attention", "encoder", "regard.attention"),
        ("position", "language-model", "regard.positions"),
        ("position", "encoder", "regard.positions"),
        ("norm", "encoder", NormSpec.package),
        ("feed_forward", "language-model", FeedForwardSpec.package),
        ("pooling", "classifier", PoolingSpec.package),
    ]:
        described += [{"kind": kind, **SMALL, key: name} for name in kinds(package)]
    described += [
        {"kind": "encoder", **SMALL, "feed_forward": {"kind": "dense", "activation": name}}
        for name in kinds(ActivationSpec.package)
    ]
    described += [
        {"kind": "recurrent", "capability": "causal-lm", "dim": 32, "cell": name}
        for name in kinds(CellSpec.package)
    ]
    described.append(
        {
            "kind": "language-model",
            **SMALL,
            "position": "alibi",
            "retained_heads": {"decoder.blocks.1.attention": [1, 3]},
        }
    )
    return described


def build(content: dict[str, Any]) -> tuple[ModelSpec, nn.Module]:
    try:
        spec = ModelSpec.model_validate(content)
        return spec, spec.build(V).eval()
    except ConfigError as error:
        pytest.skip(str(error))


def inputs(content: dict[str, Any], spec: ModelSpec) -> list[Any]:
    ids = torch.randint(4, V, (2, 8), generator=torch.Generator().manual_seed(0))
    real = torch.ones_like(ids, dtype=torch.bool)
    capability = content.get("capability") or next(iter(spec.capabilities), None)
    if capability == "seq2seq":
        return [ids, real, ids]
    if capability == "causal-lm":
        return [ids]
    if not spec.needs_trees:
        return [ids, real]
    words = torch.arange(8).expand(2, 8)
    return [ids, real, Trees(words, torch.tensor([[0, *range(7)]] * 2))]


def label(content: dict[str, Any]) -> str:
    return " ".join(str(value) for key, value in content.items() if key not in SMALL)


@pytest.mark.parametrize("content", specs(), ids=label)
def test_every_kind_computes_the_same_after_loading(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    spec, trained = build(content)
    save_file(weights_of(trained), tmp_path / "model.safetensors")
    weights, _ = read_tensors(tmp_path / "model.safetensors")
    loaded = build_with_weights(spec, V, weights, "here").eval()
    pairs = zip(trained.named_parameters(), loaded.named_parameters(), strict=True)
    assert all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)
    buffers = dict(loaded.named_buffers())
    assert buffers.keys() == dict(trained.named_buffers()).keys()
    assert not any(tensor.is_meta for tensor in buffers.values())
    assert _ties(trained) == _ties(loaded)
    arguments = inputs(content, spec)
    with torch.inference_mode():
        assert torch.equal(trained(*arguments), loaded(*arguments))


def _ties(model: nn.Module) -> list[int]:
    """Number the parameters of all names; shared ones have one number."""
    numbers: dict[int, int] = {}
    fresh = count()
    return [
        numbers.setdefault(id(parameter), next(fresh))
        for _, parameter in model.named_parameters(remove_duplicate=False)
    ]


def test_loaded_weights_are_not_copied() -> None:
    spec = ModelSpec.model_validate({"kind": "language-model", **SMALL})
    weights = weights_of(spec.build(V))
    loaded = build_with_weights(spec, V, weights, "here")
    for name, parameter in loaded.named_parameters():
        assert parameter.data_ptr() == weights[name].data_ptr()
        assert parameter.requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_are_converted(dtype: torch.dtype) -> None:
    spec = ModelSpec.model_validate({"kind": "language-model", **SMALL})
    weights = {name: weight.to(dtype) for name, weight in weights_of(spec.build(V)).items()}
    loaded = build_with_weights(spec, V, weights, "here")
    assert all(parameter.dtype == torch.float32 for parameter in loaded.parameters())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_refused(value: float) -> None:
    spec = ModelSpec.model_validate({"kind": "language-model", **SMALL})
    model = spec.build(V)
    weights = {name: weight.clone() for name, weight in weights_of(model).items()}
    weights["decoder.blocks.1.attention.w_q.weight"][3, 4] = value
    refusal = r"blocks\.1\.attention\.w_q\.weight has values that are not finite"
    with pytest.raises(RunError, match=refusal):
        build_with_weights(spec, V, weights, "here")
    with pytest.raises(RunError, match=refusal):
        set_weights(model, weights, "here")


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": 1 << 20},
        {"layers": 10_000},
        {"ffn_dim": 1 << 24},
        {"max_length": 1 << 24, "position": "learned"},
        {"max_length": 1 << 24, "dim": 1 << 20},
        {"feed_forward": {"kind": "moe", "num_experts": 4096}, "layers": 10_000},
    ],
)
def test_sizes_that_the_file_does_not_have_need_no_memory(changes: dict[str, Any]) -> None:
    small = ModelSpec.model_validate({"kind": "language-model", **SMALL})
    weights = weights_of(small.build(V))
    spec = ModelSpec.model_validate({"kind": "language-model", **SMALL, **changes})
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(RunError, match="here: "):
        build_with_weights(spec, V, weights, "here")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
    assert time.process_time() - begun < 20


def header(tensors: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(begin: int, end: int, shape: list[Any], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 7,
        struct.pack("<Q", 1 << 62),
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{",
        struct.pack("<Q", 4) + b"\xff\xfe{}",
        header({"a": tensor(0, 8, [3])}, b"\0" * 8),
        header({"a": tensor(0, 8, [2])}, b"\0" * 4),
        header({"a": tensor(0, 8, [2]), "b": tensor(4, 12, [2])}, b"\0" * 12),
        header({"a": tensor(4, 12, [2])}, b"\0" * 12),
        header({"a": tensor(-8, 0, [2])}),
        header({"a": tensor(0, 1 << 62, [1 << 60])}),
        header({"a": tensor(0, 8, [1 << 40, 1 << 40])}, b"\0" * 8),
        header({"a": tensor(0, 8, [2], "F8")}, b"\0" * 8),
        header({"a": tensor(0, 8, [2], "I32")}, b"\0" * 8),
        header({"a": tensor(0, 8, ["2"])}, b"\0" * 8),
        header({"a": None}),
        header({"a": tensor(0, 8, [2])}, b"\0" * 9),
    ],
)
def test_damaged_tensor_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(RunError, match=r"x\.safetensors: ") as caught:
        read_tensors(tmp_path / "x.safetensors")
    assert "\n" not in str(caught.value)


def test_tensor_files_are_read_as_the_library_reads_them(tmp_path: Path) -> None:
    written: dict[str, Tensor] = {
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
        "half": torch.randn(5, dtype=torch.float16),
        "wide": torch.randn(2, 3, 4, dtype=torch.float64),
        "brain": torch.randn(3, dtype=torch.bfloat16),
    }
    save_file(written, tmp_path / "x.safetensors", metadata={"made": "here"})
    read, digest = read_tensors(tmp_path / "x.safetensors")
    assert read.keys() == written.keys()
    assert all(torch.equal(read[name], written[name]) for name in written)
    assert all(read[name].dtype == written[name].dtype for name in written)
    assert len(digest) == 64
