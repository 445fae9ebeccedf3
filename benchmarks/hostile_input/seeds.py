"""Valid inputs of every format, small, in folders of their own: what the campaign damages.

python -m hostile_input.seeds FOLDER      write them, in a process that may use threads
"""

import json
import shutil
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent.parent.parent / "tests" / "fixtures" / "format-1"
PAIRS = [
    ("A dog runs over the grass.", "Un chien court sur l'herbe."),
    ("Two men read the paper.", "Deux hommes lisent le journal."),
    ("The cat sleeps.", "Le chat dort."),
    ("The dog eats 12 trees.", "Le chien mange 12 arbres."),
] * 4
TEXT = "".join(f"{a}\n{b}\n" for a, b in PAIRS)
MODEL = {"dim": 16, "heads": 2, "ffn_dim": 16, "layers": 1, "dropout": 0.0, "max_length": 48}
FILTERS = {"duplicates": "keep", "eval_overlap": "keep", "max_dropped": 1.0}
TRAINING = {
    "steps": 2,
    "batch_tokens": 512,
    "evaluation": {"every": 2},
    "checkpoint_every": 1,
    "optimizer": {"learning_rate": 0.01},
}


@dataclass(frozen=True)
class Seed:
    """A folder with valid files, the files to damage, and commands that read them."""

    format: str
    folder: str
    targets: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    stdin: bytes = b"The dog runs.\nTwo men.\n"
    run: str = ""  # run folder whose checksums are corrected in part of the cases


def run_commands(task: str) -> tuple[tuple[str, ...], ...]:
    """Commands that use a run of a task, the most usual first."""
    return {
        "translation": (
            ("translate", "run", "--to", "fr"),
            ("translate", "run", "--to", "fr", "--beam", "2", "--int8"),
            ("look", "run", "The dog runs.", "--to", "fr", "-o", "page.html"),
            ("export", "run", "--to", "ctranslate2", "-o", "out"),
        ),
        "summarization": (("summarize", "run"),),
        "language-model": (
            ("generate", "run", "--prompt", "the dog", "--max-tokens", "5"),
            ("score", "run", "text.txt"),
            ("evaluate", "run", "text.txt", "--documents", "line"),
        ),
        "classification": (("classify", "run"), ("classify", "run", "--json")),
        "masked-lm": (("fill", "run", "the dog ___ trees"),),
        "span-corruption": (("fill", "run", "the dog ___ trees"),),
        "encoder": (("embed", "run"), ("embed", "run", "--compare")),
    }[task]


def seeds(home: Path) -> list[Seed]:
    """List the seeds that `write` has written."""
    return [
        Seed(
            **{
                **seed,
                "targets": tuple(seed["targets"]),
                "stdin": seed["stdin"].encode(),
                "commands": tuple(map(tuple, seed["commands"])),
            }
        )
        for seed in json.loads((home / "seeds.json").read_text("utf-8"))
    ]


def write(home: Path, small: bool = False) -> None:
    """Write all seeds into a folder; `small`: run folders and llama2.c only."""
    home.mkdir(parents=True, exist_ok=True)
    others = [_llama2c(home)] if small else [*_training(home), *_imports(home)]
    written = [*_runs(home), *others]
    content = [{**vars(seed), "stdin": seed.stdin.decode()} for seed in written]
    (home / "seeds.json").write_text(json.dumps(content), "utf-8")


def _runs(home: Path) -> Iterator[Seed]:
    from regard import run_folder

    for name in (
        "translator",
        "lora",
        "summarizer",
        "language-model-window",
        "recurrent-language-model",
        "classifier",
        "masked",
        "span",
        "encoder",
        "decoder-only",
        "pruned",
        "language-model-experts",
    ):
        run = run_folder.read(FIXTURES / name)
        for version in ("new", "old"):
            folder = home / f"{version}-{name}"
            folder.mkdir()
            (folder / "text.txt").write_text(TEXT, "utf-8")
            shutil.copytree(FIXTURES / "translator", folder / "translator")
            if version == "new" and name != "lora":
                run_folder.write(run, folder / "run")
            else:
                shutil.copytree(FIXTURES / name, folder / "run")
            commands = run_commands(run.task)
            if name in ("decoder-only", "pruned"):  # CTranslate2 has no such models
                commands = tuple(command for command in commands if command[0] == "look")
            files = sorted(path.name for path in (folder / "run").iterdir())
            for format_, ending in (
                ("model.json", "model.json"),
                ("safetensors", ".safetensors"),
                ("tokenizer.json", ".json"),
                ("languages.json", ".json"),
            ):
                stem = format_.split(".")[0]
                targets = [
                    f"run/{file}"
                    for file in files
                    if file.endswith(ending) and (format_ == "safetensors" or file.startswith(stem))
                ]
                if targets:
                    yield Seed(format_, folder.name, tuple(targets), commands, run="run")


def _recipe(task: Any, source: dict[str, Any], model: dict[str, Any], **more: Any) -> str:
    data = {"train": source, "dev": source, "prepared": "prepared", "filters": FILTERS}
    content = {
        "task": task,
        "data": data,
        "tokenizer": "word",
        "model": {**MODEL, **model},
        "training": TRAINING,
        **more,
    }
    return json.dumps(content, indent=1)


def _training(home: Path) -> Iterator[Seed]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pairs = {"kind": "encoder-decoder"}
    languages = {"languages": ["en", "fr"]}
    table = pa.table({"source": [a for a, _ in PAIRS], "target": [b for _, b in PAIRS]})
    po = "".join(f'msgid "{a}"\nmsgstr "{b}"\n\n' for a, b in dict(PAIRS).items())
    jsonl = "".join(json.dumps({"a": {"b": a}, "c": b}) + "\n" for a, b in PAIRS)
    vectors = "".join(f"{word} {' '.join(['0.25'] * 16)}\n" for word in set(TEXT.split()))
    tsv = "".join(f"{a}\t{b}\n" for a, b in PAIRS)
    labeled = "".join(f"{a}\t{'good' if n % 2 else 'bad'}\n" for n, (a, _) in enumerate(PAIRS))
    words = ("The the DET _ _ 2 det", "dog dog NOUN _ _ 3 nsubj", "runs run VERB _ _ 0 root")
    rows = [f"{n} {word} _ _".replace(" ", "\t") + "\n" for n, word in enumerate(words, start=1)]
    tokens = "# label = {}\n" + "".join(rows) + "\n"
    conllu = "".join(tokens.format("good" if n % 2 else "bad") for n in range(8))
    sources: list[tuple[str, str, bytes, str]] = [
        (
            "TSV",
            "data.tsv",
            tsv.encode(),
            _recipe("translation", {"kind": "tsv", "path": "data.tsv", **languages}, pairs),
        ),
        (
            "JSON Lines",
            "data.jsonl",
            jsonl.encode(),
            _recipe(
                "translation",
                {"kind": "jsonl", "path": "data.jsonl", "keys": ["a.b", "c"], **languages},
                pairs,
            ),
        ),
        (
            "Parquet",
            "data.parquet",
            b"",
            _recipe(
                "translation",
                {
                    "kind": "parquet",
                    "path": "data.parquet",
                    "columns": ["source", "target"],
                    **languages,
                },
                pairs,
            ),
        ),
        (
            ".po",
            "data.po",
            ('msgid ""\nmsgstr "Language: fr\\n"\n\n' + po).encode(),
            _recipe("translation", {"kind": "po", "path": "data.po", **languages}, pairs),
        ),
        (
            "CoNLL-U",
            "data.conllu",
            conllu.encode(),
            _recipe(
                "classification",
                {"kind": "conllu", "path": "data.conllu"},
                {"kind": "classifier", "position": "syntax"},
            ),
        ),
        (
            "labeled TSV",
            "data.tsv",
            labeled.encode(),
            _recipe(
                "classification", {"kind": "labeled", "path": "data.tsv"}, {"kind": "classifier"}
            ),
        ),
        (
            "text",
            "data.txt",
            TEXT.encode(),
            _recipe(
                "language-model",
                {"kind": "text", "path": "data.txt", "documents": "line"},
                {"kind": "language-model"},
            ),
        ),
        (
            "word vectors",
            "words.vec",
            vectors.encode(),
            _recipe(
                "language-model",
                {"kind": "text", "path": "data.txt", "documents": "line"},
                {"kind": "language-model"},
                pretrained_embeddings={"path": "words.vec"},
            ),
        ),
    ]
    command = ("train", "recipe.yaml", "--run", "run")
    for number, (format_, name, data, recipe) in enumerate(sources):
        folder = home / f"data-{number}"
        folder.mkdir()
        (folder / "data.txt").write_text(TEXT, "utf-8")
        (folder / name).write_bytes(data)
        if name.endswith(".parquet"):
            pq.write_table(table, folder / name)
        (folder / "recipe.yaml").write_text(recipe, "utf-8")
        yield Seed(format_, folder.name, (name,), (command,))
        # A longer training would not be a hang: these keys stay as they are.
        capped = (*command, "training.steps=2", "training.budget=null")
        yield Seed("recipe", folder.name, ("recipe.yaml",), (capped,))
        if format_ in ("TSV", "labeled TSV", "text"):
            yield from _resumable(home, folder)


def _resumable(home: Path, source: Path) -> Iterator[Seed]:
    """A run with checkpoints that can be resumed for another step."""
    import os

    from regard.training.recipe import read_recipe
    from regard.training.trainer import train

    folder = home / f"resume-{source.name}"
    shutil.copytree(source, folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        train(read_recipe(Path("recipe.yaml"), ()), Path("run"))
    finally:
        os.chdir(before)
    command = ("resume", "run", "training.steps=3")
    newest = sorted((folder / "run" / "checkpoints").iterdir())[-1].relative_to(folder)
    store = next((folder / "prepared").iterdir()).relative_to(folder)
    yield Seed(
        "checkpoint",
        folder.name,
        (f"{newest}/state.json", f"{newest}/state.safetensors"),
        (command,),
    )
    yield Seed("training.json", folder.name, ("run/training.json",), (command,))
    yield Seed("metrics.jsonl", folder.name, ("run/metrics.jsonl",), (command,))
    yield Seed("ledger.json", folder.name, ("run/ledger.json", f"{store}/ledger.json"), (command,))
    yield Seed(
        "token store",
        folder.name,
        (f"{store}/fingerprint.json", f"{store}/train.arrow"),
        (command,),
    )
    yield Seed("recipe", folder.name, ("run/recipe.yaml",), (command,))


def _imports(home: Path) -> Iterator[Seed]:
    yield _llama2c(home)
    try:
        import transformers
    except ImportError:
        return
    sizes = {"vocab_size": 300}
    t = transformers
    models = {
        "gpt2": t.GPT2LMHeadModel(
            t.GPT2Config(
                n_positions=32,
                n_embd=16,
                n_layer=1,
                n_head=2,
                bos_token_id=0,
                eos_token_id=0,
                **sizes,
            )
        ),
        "llama": t.LlamaForCausalLM(
            t.LlamaConfig(
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=32,
                bos_token_id=2,
                eos_token_id=3,
                **sizes,
            )
        ),
        "bert": t.BertModel(
            t.BertConfig(
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                max_position_embeddings=32,
                **sizes,
            )
        ),
        "roberta": t.RobertaForMaskedLM(
            t.RobertaConfig(
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                max_position_embeddings=34,
                pad_token_id=0,
                **sizes,
            )
        ),
        "marian": t.MarianMTModel(
            t.MarianConfig(
                d_model=16,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=16,
                decoder_ffn_dim=16,
                max_position_embeddings=32,
                pad_token_id=0,
                eos_token_id=3,
                decoder_start_token_id=0,
                scale_embedding=True,
                **sizes,
            )
        ),
        "pegasus": t.PegasusForConditionalGeneration(
            t.PegasusConfig(
                d_model=16,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=16,
                decoder_ffn_dim=16,
                max_position_embeddings=32,
                pad_token_id=0,
                eos_token_id=3,
                decoder_start_token_id=0,
                scale_embedding=True,
                **sizes,
            )
        ),
        "t5": t.T5ForConditionalGeneration(
            t.T5Config(
                d_model=16,
                d_kv=8,
                d_ff=16,
                num_layers=1,
                num_heads=2,
                pad_token_id=0,
                eos_token_id=3,
                decoder_start_token_id=0,
                **sizes,
            )
        ),
    }
    for name, model in models.items():
        folder = home / f"import-{name}"
        model.save_pretrained(folder / "theirs")
        _byte_level().save(str(folder / "theirs" / "tokenizer.json"))
        files = [f"theirs/{path.name}" for path in sorted((folder / "theirs").iterdir())]
        extra = ("--languages", "fr-en") if name in ("marian", "pegasus", "t5") else ()
        yield Seed(
            "Hugging Face",
            folder.name,
            tuple(files),
            (("import", "theirs", "--run", "run", *extra),),
        )
    yield from _sentencepiece(home)


def _byte_level() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=special,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    backend.train_from_iterator(TEXT.splitlines(), trainer)
    return backend


def _sentencepiece(home: Path) -> Iterator[Seed]:
    try:
        import sentencepiece
    except ImportError:
        return
    for kind in ("unigram", "bpe"):
        folder = home / f"sentencepiece-{kind}"
        shutil.copytree(home / "import-llama", folder)
        (folder / "theirs" / "tokenizer.json").unlink()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT.splitlines() * 4),
            model_prefix=str(folder / "made"),
            model_type=kind,
            vocab_size=90 if kind == "unigram" else 298,
            hard_vocab_limit=False,
            minloglevel=2,
            byte_fallback=kind == "bpe",
        )
        (folder / "made.model").rename(folder / "theirs" / "tokenizer.model")
        target = ("theirs/tokenizer.model",)
        yield Seed("SentencePiece", folder.name, target, (("import", "theirs", "--run", "run"),))


def _llama2c(home: Path) -> Seed:
    """A checkpoint of llama2.c in its first version, and its tokenizer."""
    import numpy as np

    folder = home / "llama2c"
    folder.mkdir()
    dim, hidden, layers, heads, vocabulary, context = 8, 8, 1, 2, 262, 16
    sizes = [
        vocabulary * dim,
        layers * dim,
        *[layers * dim * dim] * 4,
        layers * dim,
        *[layers * hidden * dim] * 3,
        dim,
    ]
    weights = np.random.default_rng(0).normal(0, 0.3, sum(sizes))
    frequencies = 10_000.0 ** (-np.arange(0, dim // heads, 2) / (dim // heads))
    angles = np.outer(np.arange(context), frequencies).ravel()
    floats = np.concatenate([weights, np.cos(angles), np.sin(angles)]).astype("<f4").tobytes()
    header = struct.pack("<7i", dim, hidden, layers, heads, heads, vocabulary, context)
    (folder / "model.bin").write_bytes(header + floats)
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{i:02X}>" for i in range(256)), " ", "a", " a"]
    packed = b"".join(struct.pack("<fi", 0.0, len(piece)) + piece.encode() for piece in pieces)
    (folder / "tokenizer.bin").write_bytes(struct.pack("<i", 7) + packed)
    command = ("import", "model.bin", "--run", "run")
    return Seed("llama2.c", folder.name, ("model.bin", "tokenizer.bin"), (command,))


if __name__ == "__main__":
    write(Path(sys.argv[1]), small="--small" in sys.argv)
