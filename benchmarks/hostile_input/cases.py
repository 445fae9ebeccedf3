"""Cases: the command line, the files and standard input of each, by its number and the seed."""

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hostile_input import mutations
from hostile_input.seeds import Seed

COMMAND_LINE = "command line"
VALUES = [
    "",
    "-1",
    "0",
    "1",
    "2",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e-400",
    "99999999999999999999",
    "0x10",
    "é",
    "\udcff",
    "x" * 20_000,
    "..",
    "/proc",
    "/dev/null",
    "/dev/full",
    "run",
    "text.txt",
    "missing/file",
    "fr",
    "en",
    "xx",
    " ",
    "\n",
    "\t",
    "🦊" * 50,
    "--",
    "-",
    "a=b",
    "1.5",
    "3,4",
    "None",
    "true",
    "{}",
    "[",
    "\u2028",
    "encoder.1.1",
    "line",
    "huggingface",
    "onnx",
    "%s",
    "\x1b[31m",
]
STDIN = [
    b"",
    b"\n",
    b"\n\n\n",
    b"\xef\xbb\xbfThe dog.\n",
    b"\xff\xfe\x00",
    b"\x00\n",
    b"\xed\xa0\x80\n",
    b"The dog\r\nruns\r",
    b"x" * 100_000,  # a translator splits it: three times as much is half a minute of work
    b"no end",
    "🦊\u200d\U0010ffff\n".encode(),
    b"\t\t\t\n",
    b"<s></s><pad><unk>\n",
    b"a\x85b\x0cc\x1cd\n",
    b"The dog runs. " * 400 + b"\n",
    b"The dog\n" * 50,
    b"\x1f\x8b\x08\x00bad",
    "e\u0301".encode() * 100 + b"\n",
    b"___ ___\n",
    b"{}\n",
    b"1 2 3\n",
]
OPTIONS = {
    "translate": [
        "--to",
        "--beam",
        "--n-best",
        "--scores",
        "--length-penalty",
        "--early-stopping",
        "--beam-groups",
        "--no-repeat-ngram",
        "--require-phrase",
        "--suppress-phrase",
        "--prefix",
        "--keep-placeholders",
        "--max-tokens",
        "--align",
        "--int8",
        "-o",
    ],
    "summarize": [
        "--whole-file",
        "--beam",
        "--n-best",
        "--scores",
        "--length-penalty",
        "--no-repeat-ngram",
        "--suppress-phrase",
        "--prefix",
        "--max-tokens",
        "--int8",
        "-o",
    ],
    "generate": [
        "--prompt",
        "--max-tokens",
        "--temperature",
        "--top-k",
        "--top-p",
        "--min-p",
        "--seed",
        "--beam",
        "--repetition-penalty",
        "--no-repeat-ngram",
        "--draft-model",
        "--prompt-lookup",
        "--sliding-window",
    ],
    "score": ["--to", "--per-token"],
    "evaluate": [
        "--context",
        "--stride",
        "--documents",
        "--to",
        "--beam",
        "--lowercase",
        "--source",
        "--json",
    ],
    "classify": ["--text", "--all", "--json", "--threshold", "--template", "--label"],
    "fill": ["--top", "--json"],
    "embed": ["--json", "-o", "--compare"],
    "look": ["--to", "--sentence", "--compare", "-o", "--panel", "--layer"],
    "export": ["--to", "-o"],
    "import": ["--run", "--languages"],
    "train": ["--run", "--overwrite"],
    "merge": ["-o"],
}
FLAGS = {
    "--scores",
    "--early-stopping",
    "--keep-placeholders",
    "--align",
    "--int8",
    "--whole-file",
    "--prompt-lookup",
    "--sliding-window",
    "--per-token",
    "--lowercase",
    "--json",
    "--all",
    "--overwrite",
}


@dataclass(frozen=True)
class Case:
    """One damaged input and the command that reads it."""

    number: int
    format: str
    description: str
    argv: list[str]
    stdin: bytes
    folder: Path


def formats(seeds: list[Seed]) -> list[str]:
    """List all formats; the command line is one."""
    return [*dict.fromkeys(seed.format for seed in seeds), COMMAND_LINE]


def make(number: int, seed: int, seeds: list[Seed], home: Path, work: Path) -> Case:
    """Write the folder of a case and return it; formats take turns."""
    draw = Random(f"{seed}:{number}")
    names = formats(seeds)
    trained = {seed.format for seed in seeds if seed.commands[0][0] in ("train", "resume")}
    # Training takes three times as long as other commands and gets half as many cases.
    turns = [name for name in names for _ in range(1 if name in trained else 2)]
    format_ = turns[number % len(turns)]
    folder = work / f"case-{number:05d}"
    if format_ == COMMAND_LINE:
        return _command_line(number, draw, seeds, home, folder)
    chosen = draw.choice([seed for seed in seeds if seed.format == format_])
    shutil.copytree(home / chosen.folder, folder)
    target = draw.choice(chosen.targets)
    mutation = draw.choice(mutations.of_file(target))
    path = folder / target
    path.write_bytes(mutation(path.read_bytes(), draw))
    fixed = bool(chosen.run) and draw.random() < 0.8
    if fixed:
        _correct_checksum(folder / chosen.run, path)
    description = f"{chosen.folder}/{target}: {mutation.__name__}{', checksum corrected' * fixed}"
    argv = list(draw.choice(chosen.commands))
    return Case(number, format_, description, argv, chosen.stdin, folder)


def unchanged(number: int, seed: Seed, command: tuple[str, ...], home: Path, work: Path) -> Case:
    """Return a case with nothing damaged: it must succeed, or the campaign tests nothing."""
    folder = work / f"seed-{number:05d}"
    shutil.copytree(home / seed.folder, folder)
    return Case(number, seed.format, f"{seed.folder}: unchanged", list(command), seed.stdin, folder)


def _command_line(number: int, draw: Random, seeds: list[Seed], home: Path, folder: Path) -> Case:
    chosen = draw.choice([seed for seed in seeds if seed.run or seed.format == "Hugging Face"])
    shutil.copytree(home / chosen.folder, folder)
    command, *arguments = draw.choice(chosen.commands)
    if draw.random() < 0.15:
        command = draw.choice(sorted(OPTIONS))
    if draw.random() < 0.2:
        arguments[draw.randrange(len(arguments))] = draw.choice(VALUES)
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        option = draw.choice(OPTIONS[command])
        arguments += [option] if option in FLAGS else [option, draw.choice(VALUES)]
    stdin = draw.choice(STDIN) if draw.random() < 0.6 else chosen.stdin
    shown = [argument[:30] for argument in (command, *arguments)]
    return Case(
        number, COMMAND_LINE, f"{chosen.folder}: {shown}", [command, *arguments], stdin, folder
    )


def _correct_checksum(run: Path, path: Path) -> None:
    """Write the checksum of a damaged file into the manifest, and rename the file after it."""
    manifest = run / "model.json"
    if path == manifest:
        return
    content = json.loads(manifest.read_text("utf-8"))
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    stem = path.stem.rpartition("-")[0] or path.stem
    content["sha256"][f"{stem}{path.suffix}"] = checksum
    manifest.write_text(json.dumps(content), "utf-8")
    if content["format"] > 2:
        path.rename(path.with_stem(f"{stem}-{checksum[:12]}"))
