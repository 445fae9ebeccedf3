"""Text files for the reference runs, written from the bundled grammar: always the same files."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from regard.data.bundled import Pair, corpus

TRAIN, DEV = 600, 40  # sentence pairs
DOCUMENT = 5  # sentences in a document of running text, or in a text to summarize
VECTOR_SIZE = 32  # of the pretrained word vectors
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_corpus(folder: Path) -> None:
    """Write all files that the recipes of `settings.py` name into the folder."""
    drawn = corpus(seed=1, train=TRAIN, dev=DEV, pronouns=20)
    for split, pairs in (("train", drawn.train), ("dev", drawn.dev)):
        english = [pair.english for pair in pairs]
        files = {
            f"pairs-{split}.tsv": [f"{pair.french}\t{pair.english}" for pair in pairs],
            f"text-{split}.txt": [_blank_line_every(DOCUMENT, i, s) for i, s in enumerate(english)],
            f"labeled-{split}.tsv": [f"{pair.english}\t{_sentence_type(pair)}" for pair in pairs],
            f"multilabel-{split}.tsv": [f"{pair.english}\t{_features(pair)}" for pair in pairs],
            f"entailment-{split}.tsv": _sentence_pairs(pairs),
            f"summaries-{split}.tsv": _summaries(english),
            f"trees-{split}.conllu": [_conllu(pair) for pair in pairs],
        }
        for name, lines in files.items():
            (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = sorted({word for pair in drawn.train for word in _words(pair.english)})
    (folder / "vectors.txt").write_text("".join(map(_vector, words)), encoding="utf-8")
    write_bert(folder / "bert", words)


def _blank_line_every(size: int, index: int, sentence: str) -> str:
    return f"{sentence}\n" if (index + 1) % size == 0 else sentence


def _words(sentence: str) -> list[str]:
    return sentence.lower().replace(".", " .").replace("?", " ?").split()


def _sentence_type(pair: Pair) -> str:
    return pair.construction.split("-")[0]


def _features(pair: Pair) -> str:
    """Return the labels of a sentence, separated by commas; "-" if it has none."""
    tests = {
        "negative": any(word in pair.english for word in ("n't", " not ", " never ", " no ")),
        "question": pair.english.endswith("?"),
        "because": " because " in pair.english,
    }
    return ",".join(label for label, holds in tests.items() if holds) or "-"


def _sentence_pairs(pairs: Sequence[Pair]) -> list[str]:
    """Return lines with a French and an English sentence, and whether one translates the other."""
    lines = []
    for index, pair in enumerate(pairs):
        other = pairs[(index + 7) % len(pairs)] if index % 2 else pair
        lines.append(f"{pair.french}\t{other.english}\t{'other' if index % 2 else 'same'}")
    return lines


def _summaries(sentences: Sequence[str]) -> list[str]:
    """Return lines with several sentences, and the last of them as their summary."""
    groups = (sentences[i : i + DOCUMENT] for i in range(len(sentences) - DOCUMENT))
    return [f"{' '.join(group)}\t{group[-1]}" for group in groups]


def _conllu(pair: Pair) -> str:
    """Return a sentence with a made-up tree: word i depends on word i // 2."""
    words = pair.english.split()
    rows = [f"# label = {_sentence_type(pair)}"]
    rows += [
        "\t".join([str(i), word, word, "X", "_", "_", str(i // 2), "root" * (i == 1) or "dep"])
        + "\t_\t_"
        for i, word in enumerate(words, start=1)
    ]
    return "\n".join(rows) + "\n"


def _vector(word: str) -> str:
    seed = sum(map(ord, word))
    numbers = (f"{math.sin(seed * (i + 1)):.4f}" for i in range(VECTOR_SIZE))
    return f"{word} {' '.join(numbers)}\n"


def write_bert(folder: Path, words: Sequence[str], dim: int = 16, layers: int = 2) -> None:
    """Write a small BERT with random weights as Hugging Face saves one."""
    vocabulary = [*SPECIAL_TOKENS, *words]
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_size": dim,
        "num_attention_heads": 2,
        "intermediate_size": 2 * dim,
        "num_hidden_layers": layers,
        "hidden_act": "gelu",
        "max_position_embeddings": 64,
        "vocab_size": len(vocabulary),
        "type_vocab_size": 2,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    generator = torch.Generator().manual_seed(5)
    tensors = {
        name: 0.3 * torch.randn(shape, generator=generator)
        for name, shape in _bert_shapes(config).items()
    }
    save_file(tensors, folder / "model.safetensors")


def _bert_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    dim, inner = config["hidden_size"], config["intermediate_size"]
    linears = {
        "attention.self.query": (dim, dim),
        "attention.self.key": (dim, dim),
        "attention.self.value": (dim, dim),
        "attention.output.dense": (dim, dim),
        "intermediate.dense": (inner, dim),
        "output.dense": (dim, inner),
    }
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], dim),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], dim),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], dim),
        "embeddings.LayerNorm.weight": (dim,),
        "embeddings.LayerNorm.bias": (dim,),
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"
        for name, shape in linears.items():
            shapes |= {f"{prefix}.{name}.weight": shape, f"{prefix}.{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{prefix}.{name}.weight": (dim,), f"{prefix}.{name}.bias": (dim,)}
    return shapes
