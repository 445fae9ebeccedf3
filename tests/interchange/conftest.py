"""Hugging Face models with random weights, as folders on disk."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn

TEXT = [
    "A dog runs over the grass near 12 trees.",
    "Two men sit on a bench and read the paper.",
    "Un chien court sur l'herbe, près de 12 arbres.",
    "Deux hommes sont assis sur un banc et lisent le journal.",
] * 3


def randomized(model: nn.Module, seed: int = 3) -> Any:
    torch.manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:  # sinusoids are not learned
            nn.init.normal_(parameter, std=0.2)
    return model.eval()


def byte_level(special: list[str]) -> Tokenizer:
    """Byte-level BPE, as in GPT-2, RoBERTa and newer Llamas."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXT, trainer)
    return backend


def word_pieces() -> Tokenizer:
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    backend.train_from_iterator(TEXT, trainer)
    return backend


def saved(model: Any, tokenizer: Tokenizer | None, folder: Path) -> Path:
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "theirs"
