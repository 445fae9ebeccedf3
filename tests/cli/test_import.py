"""regard import: DistilBERT computes what transformers computes."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import regard
from regard import run_folder

from ..interchange.conftest import randomized, saved, word_pieces

TEXT = "A [MASK] runs over the grass near 12 trees."


def distilbert(name: str, vocabulary: int) -> Any:
    config = transformers.DistilBertConfig(
        vocab_size=vocabulary, dim=32, n_heads=4, hidden_dim=48, n_layers=2,
        max_position_embeddings=64,
    )  # fmt: skip
    return randomized(getattr(transformers, f"DistilBert{name}")(config))


@pytest.mark.parametrize(
    ("name", "task"),
    [("Model", "encoder"), ("ForMaskedLM", "masked-lm"), ("ForSequenceClassification", "encoder")],
)
def test_distilbert_computes_what_transformers_computes(
    call, name: str, task: str, tmp_path: Path
) -> None:
    tokenizer = word_pieces()
    theirs = distilbert(name, tokenizer.get_vocab_size())
    saved(theirs, tokenizer, tmp_path / "theirs")
    run = tmp_path / "run"
    done = call("import", tmp_path / "theirs", "--run", run, "--verify")
    assert done.code == 0, done.err
    read = run_folder.read(run)
    assert read.task == task
    heads = [name for name in read.details["imported"]["unused_weights"] if "classifier" in name]
    assert bool(heads) == (name == "ForSequenceClassification")
    model = regard.load(run).model
    ids = torch.randint(5, tokenizer.get_vocab_size(), (2, 40))
    token_mask = torch.arange(40) < torch.tensor([[40], [25]])
    body = theirs if name == "ForMaskedLM" else getattr(theirs, "distilbert", theirs)
    with torch.inference_mode():
        output = body(ids, attention_mask=token_mask.long())
        expected = output.logits if name == "ForMaskedLM" else output.last_hidden_state
        ours = model(ids, token_mask)
    torch.testing.assert_close(ours[token_mask], expected[token_mask], atol=1e-4, rtol=1e-4)
    if task == "masked-lm":
        filled = call("fill", run, TEXT)
        assert filled.code == 0, filled.err
        assert len(filled.out.splitlines()) == 5
