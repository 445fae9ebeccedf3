"""Tiny models of every kind, as run folders and with text, and one that has learned something."""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import regard
from regard import run_folder
from regard.attention.multi_head import MultiHead
from regard.cli import main
from regard.config import plain
from regard.data.batches.base import pad
from regard.data.batches.pairs import PairBatch
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.insight.heads.examples import Examples, Row, read_examples
from regard.insight.heads.losses import row_losses
from regard.models.base import ModelSpec
from regard.models.weights import weights_of

PAIRS = [
    ("Un chien court sur l'herbe.", "A dog runs over the grass."),
    ("Deux hommes lisent le journal.", "Two men read the paper."),
    ("La fille a un ballon rouge.", "The girl has a red ball."),
    ("Le garçon dort, assis sur un banc.", "The boy sleeps, sitting on a bench."),
    ("Le chien dort.", "The dog sleeps."),
    ("Un homme court.", "A man runs."),
]
SIZES = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 48}
TASKS = {
    "encoder-decoder": "translation",
    "language-model": "language-model",
    "classifier": "classification",
    "encoder": "encoder",
}
TEXTS = {
    "encoder-decoder": "".join(f"{source}\t{target}\n" for source, target in PAIRS),
    "language-model": "\n".join(target for _, target in PAIRS * 6) + "\n",
    "classifier": "".join(f"{a}\tfr\n{b}\ten\n" for a, b in PAIRS),
    "encoder": "".join(f"{a}\n{b}\n" for a, b in PAIRS),
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Models so tiny are done sooner than threads are woken."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def built(kind: str, vocabulary: int = 300, **settings: Any) -> nn.Module:
    """A model with weights of chance, norms and biases too."""
    torch.manual_seed(1)
    model = ModelSpec.model_validate({"kind": kind, **SIZES, **settings}).build(vocabulary)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


class Home(NamedTuple):
    run: Path
    data: Path
    loaded: Any
    examples: Examples


Make = Callable[..., Home]


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return bpe.Spec(vocabulary=300).train([text for pair in PAIRS for text in pair])


@pytest.fixture
def make(tokenizer: Any, tmp_path: Path) -> Make:
    """A run folder of a kind, a file of text for it, and both loaded."""

    def made(kind: str, name: str = "run", **settings: Any) -> Home:
        model = built(kind, len(tokenizer), **settings)
        spec = ModelSpec.model_validate({"kind": kind, **SIZES, **settings})
        details: dict[str, Any] = {"max_length": spec.max_length}
        details |= {"directions": ["fr → en"], "labels": ["fr", "en"]}
        guess = LanguageIdentifier({"fr": {}, "en": {}}).to_json()
        run = run_folder.Run(
            task=TASKS[kind],
            model=plain(spec),
            vocabulary=len(tokenizer),
            details=details,
            weights=weights_of(model),
            tokenizer=tokenizer.to_json(),
            extra_files={"languages.json": guess},
            documents={},
        )
        folder, data = tmp_path / name, tmp_path / f"{name}.tsv"
        run_folder.write(run, folder)
        data.write_text(TEXTS[kind], encoding="utf-8")
        loaded = regard.load(folder)
        return Home(folder, data, loaded, read_examples(loaded, data))

    return made


def reversing(rows: int, seed: int) -> Examples:
    """Sequences that are to be said backwards."""
    chance = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(rows):
        length = int(torch.randint(3, 8, (), generator=chance))
        ids = torch.randint(4, 20, (length,), generator=chance).tolist()
        made.append(Row(([*ids, 3], [2, *ids[::-1], 3])))

    def batch(chosen: Sequence[Row]) -> PairBatch:
        sources, targets = ([row.ids[side] for row in chosen] for side in (0, 1))
        return PairBatch(*pad(sources, 0), *pad(targets, 0))

    return Examples(tuple(sorted(made, key=lambda row: len(row.ids[0]))), batch, "rows")


class Learned(NamedTuple):
    model: nn.Module
    examples: Examples
    before: nn.Module


@pytest.fixture
def learned() -> Learned:
    return _learned()


@cache
def _learned() -> Learned:
    """An encoder-decoder that has learned to turn sequences round."""
    spec = ModelSpec.model_validate({"kind": "encoder-decoder", **SIZES})
    torch.manual_seed(0)
    model, before = spec.build(20), spec.build(20)
    before.load_state_dict(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(120):
        (batch,) = reversing(48, seed=step).batches(48)
        loss, tokens = row_losses(model, batch)
        optimizer.zero_grad()
        (loss.sum() / tokens.sum()).backward()
        optimizer.step()
    return Learned(model.eval(), reversing(64, seed=1000), before.eval())


def make_duplicates(attention: MultiHead, first: int, second: int) -> None:
    """Two heads that are the same, each with one half of what the first said."""
    size = attention.head_dim
    one, other = (slice(head * size, (head + 1) * size) for head in (first, second))
    with torch.no_grad():
        for linear in (attention.w_q, attention.w_k, attention.w_v):
            linear.weight[other] = linear.weight[one]
            linear.bias[other] = linear.bias[one]
        attention.w_o.weight[:, one] /= 2
        attention.w_o.weight[:, other] = attention.w_o.weight[:, one]


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """`regard heads ARGUMENTS`, in this process."""

    def run(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["regard", "heads", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as left:
            main()
        captured = capsys.readouterr()
        return Answer(int(left.value.code or 0), captured.out, captured.err)

    return run
