"""Servers, models and requests of the benchmark of serving."""

import gzip
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import llama_cpp
from regard import run_folder
from regard.interchange.exports import ctranslate2, huggingface
from regard.interchange.llama2c import pairs_to_halves
from regard.pretrained import located
from shared_data import DATA

SCRIPTS = Path(__file__).parent / "servers"
TEXTS = DATA / "multi30k" / "test_2016_flickr.fr.gz"
PROMPTS, TOKENS, THREADS = 1024, 64, 2
FEWEST, MOST = 8, 120  # tokens of completions of different lengths: 64 on average
CORES = ((2, 1), (1, 2))  # workers and the threads of each: the better setting counts


@dataclass(frozen=True)
class Server:
    """A server: `regard serve` if it has no script."""

    script: str
    bits: int
    cores: tuple[tuple[int, int], ...] = ((1, THREADS),)


SERVERS = {
    "Regard": Server("", 32),
    "CTranslate2": Server("ctranslate.py", 32, CORES),
    "llama.cpp F32": Server("llama_server.py", 32),
    "Hugging Face": Server("hugging_face.py", 32),
    "Regard int8": Server("", 8),
    "CTranslate2 int8": Server("ctranslate.py", 8, CORES),
    "llama.cpp Q8_0": Server("llama_server.py", 8),
}
OURS = {"float32": "Regard", "int8": "Regard int8"}


@dataclass(frozen=True)
class Workload:
    """A kind of request."""

    name: str
    task: str  # translation or completion
    streams: bool = False
    varies: bool = False  # the requests ask for different numbers of tokens

    @property
    def is_plain(self) -> bool:
        """True if it is the first workload of its task."""
        return not (self.streams or self.varies)

    @property
    def path(self) -> str:
        return "/translate" if self.task == "translation" else "/v1/completions"

    def servers(self, names: list[str]) -> list[str]:
        """Return the servers that do the task."""
        return [name for name in names if self.task == "completion" or "llama.cpp" not in name]

    def bodies(self, server: str, texts: Sequence[str]) -> list[str]:
        """Return the bodies of requests, in the dialect of a server."""
        draw = random.Random(0)
        return [
            self._body(server, text, draw.randint(FEWEST, MOST) if self.varies else TOKENS)
            for text in texts
        ]

    def _body(self, server: str, text: str, tokens: int) -> str:
        if self.task == "translation":
            return json.dumps({"q": text, "source": "fr", "target": "en", "format": "text"})
        body: dict[str, Any] = {"model": "regard", "prompt": text, "max_tokens": tokens}
        body |= {"temperature": 0, "stream": self.streams}
        if "llama.cpp" in server:  # its tokenizer has no merges: it gets ids
            ids = [int(word.removeprefix("w")) for word in text.split()]
            body |= {"prompt": ids, "ignore_eos": True, "cache_prompt": False}
            body |= {"samplers": ["top_k"], "top_k": 1}  # greedy
        return json.dumps(body)


WORKLOADS = (
    Workload("translation", "translation"),
    Workload("completion", "completion"),
    Workload("streamed completion", "completion", streams=True),
    Workload("completion of any length", "completion", varies=True),
)


class Models:
    """The models of tasks in the formats of all servers, written when they are first needed.

    Args:
        folder: Where they are written.
        shape: Shape of the language model.
    """

    def __init__(self, folder: Path, shape: llama_cpp.Shape) -> None:
        self._folder, self._shape = folder, shape
        self._folders: dict[str, Mapping[str, Path]] = {}  # by task and script

    def texts(self, workload: Workload) -> list[str]:
        """Return the texts of requests."""
        if workload.task == "completion":
            return llama_cpp.prompts(self._shape, PROMPTS)
        return gzip.decompress(TEXTS.read_bytes()).decode().splitlines()

    def folder(self, workload: Workload, server: str) -> Path:
        """Return the model of a server."""
        task = workload.task
        if task not in self._folders:
            folder = self._folder / task
            self._folders[task] = (
                _completion_models(self._shape, folder)
                if task == "completion"
                else _translation_models(folder)
            )
        return self._folders[task][SERVERS[server].script]

    def command(self, workload: Workload, name: str, workers: int, threads: int) -> list[str]:
        """Return the command of a server, with PORT for its port."""
        server, model = SERVERS[name], str(self.folder(workload, name))
        if not server.script:
            bits = [] if server.bits == 32 else [f"--int{server.bits}"]
            command = ["-m", "regard", "serve", model, "--port", "PORT", "--quiet", *bits]
            return [sys.executable, *command]
        script, numbers = str(SCRIPTS / server.script), (server.bits, workers, threads)
        return [sys.executable, script, model, workload.task, *map(str, numbers), "PORT"]


def _completion_models(shape: llama_cpp.Shape, folder: Path) -> Mapping[str, Path]:
    """Write the language model for all servers; return the folders by script."""
    written = llama_cpp.write_models(shape, folder)
    paths = {
        "": written["regard_engine.py"],
        "ctranslate.py": written["ctranslate.py"],
        "llama_server.py": written["llama_engine.py"],
        "hugging_face.py": folder / "huggingface",
    }
    run = _with_rotated_halves(run_folder.read(paths[""]), shape.dim // shape.heads)
    _export_to_hugging_face(run, paths["hugging_face.py"])
    return paths


def _translation_models(folder: Path) -> Mapping[str, Path]:
    """Write the translator of the package for all servers, for plain greedy decoding."""
    run = run_folder.read(located(Path("fr-en")))
    handling = {"split_sentences": False, "lowercase_capitals": False, "restore_lost": False}
    run = replace(run, details={**run.details, **handling, "beam": 1})
    scripts = {"": "regard", "ctranslate.py": "ctranslate2", "hugging_face.py": "huggingface"}
    paths = {script: folder / name for script, name in scripts.items()}
    run_folder.write(run, paths[""])
    ctranslate2.export(run, paths["ctranslate.py"])
    (paths["ctranslate.py"] / "tokenizer.json").write_text(run.tokenizer, encoding="utf-8")
    _export_to_hugging_face(run, paths["hugging_face.py"])
    return paths


def _with_rotated_halves(run: run_folder.Run, head_dim: int) -> run_folder.Run:
    """Return the same model with rotary positions as Hugging Face has them."""
    weights = {
        name: pairs_to_halves(tensor, head_dim)
        if name.endswith(("w_q.weight", "w_k.weight"))
        else tensor
        for name, tensor in run.weights.items()
    }
    position = {**run.model["position"], "pairs": "halves"}
    return replace(run, model={**run.model, "position": position}, weights=weights)


def _export_to_hugging_face(run: run_folder.Run, folder: Path) -> None:
    huggingface.export(run, folder)
    (folder / "tokenizer.json").write_text(run.tokenizer, encoding="utf-8")
