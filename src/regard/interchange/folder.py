"""A Hugging Face model folder on disk: config, weights, tokenizer files. No pickles.

Loading a pickle can run any code of its author. A folder with one in it is refused, with a remedy.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from regard.errors import DataError
from regard.json_files import parse_json
from regard.nearest import nearest_path

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
MAX_JSON = 1 << 28  # bytes; the largest tokenizers and indexes have a tenth of it


class ModelFolder:
    """A Hugging Face model folder; errors are DataError with the path of the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            hint = nearest_path(path) or "; give the folder of a model."
            raise DataError(f"{path}: there is no such folder{hint}")
        self.config: dict[str, Any] = self.read_json("config.json")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON object."""
        content = self._read(name)
        if not isinstance(content, dict):
            raise DataError(f"{self.path / name}: not a JSON object.")
        return content

    def read_list(self, name: str) -> list[dict[str, Any]]:
        """Read a JSON list of objects."""
        content = self._read(name)
        if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
            raise DataError(f"{self.path / name}: not a JSON list of objects.")
        return content

    def read_text(self, name: str) -> str:
        """Read a text file."""
        path = self.path / name
        try:
            if path.stat().st_size > MAX_JSON:
                raise DataError(f"{path}: has more than {MAX_JSON:,} bytes, which no model needs.")
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read ({error.strerror}); a Hugging Face model folder has it."
            ) from None
        except ValueError as error:
            raise DataError(f"{path}: not UTF-8 ({error}).") from None

    def _read(self, name: str) -> Any:
        return parse_json(self.read_text(name), str(self.path / name), DataError, finite=False)

    def has(self, name: str) -> bool:
        """True if the folder has this file."""
        return (self.path / name).is_file()

    def weights(self) -> dict[str, Tensor]:
        """All tensors by name, in their own type."""
        files = sorted(self.path.glob("*.safetensors"))
        self._refuse_pickles(bool(files))
        if self.has(ADAPTER):
            raise DataError(
                f"{self.path / ADAPTER}: the weights are those of an adapter, which Regard does "
                f"not import; merge it into its model with `merge_and_unload` of the package peft."
            )
        index = self._index(files)
        if not files:
            raise DataError(f"{self.path}: there are no weights in it (*.safetensors).")
        if self.has(WEIGHTS) and len(files) > 1 and not index:
            other = next(file for file in files if file.name != WEIGHTS)
            raise DataError(
                f"{other}: the weights are in {WEIGHTS}, and this file is not part of them; move "
                f"it to another folder."
            )
        return self._read_files(files, index)

    def _read_files(self, files: list[Path], index: dict[str, str]) -> dict[str, Tensor]:
        """Read the tensors of all files; each must be in the one file that the index names."""
        tensors: dict[str, Tensor] = {}
        origin: dict[str, str] = {}
        for file in files:
            for name, tensor in _tensors(file):
                if name in tensors:
                    raise DataError(f"{file}: has {name}, which {origin[name]} has too.")
                if index and index.get(name) != file.name:
                    raise DataError(
                        f"{file}: has {name}, which {INDEX} places in {index.get(name, 'no file')}."
                    )
                tensors[name], origin[name] = tensor, file.name
        if missing := sorted(set(index) - set(tensors)):
            raise DataError(
                f"{self.path / index[missing[0]]}: is missing or incomplete: it should have "
                f"{missing[0]}; fetch it again."
            )
        return tensors

    def _index(self, files: list[Path]) -> dict[str, str]:
        """Return the file of each tensor, for weights in several files; else nothing."""
        if not self.has(INDEX):
            return {}
        index = self.read_json(INDEX).get("weight_map")
        path = self.path / INDEX
        if not isinstance(index, dict) or not index:
            raise DataError(f"{path}: has no weight_map, which names the file of each tensor.")
        for name, file in index.items():
            if not isinstance(file, str) or not file or Path(file).name != file:
                raise DataError(
                    f"{path}: {name} is in {file!r}, which is not a file of the folder."
                )
        present = {file.name for file in files}
        if missing := sorted(set(index.values()) - present):
            raise DataError(f"{self.path / missing[0]}: is missing; {INDEX} names it.")
        if surplus := sorted(present - set(index.values())):
            raise DataError(
                f"{self.path / surplus[0]}: {INDEX} does not name this file; move it to another "
                f"folder."
            )
        return index

    def _refuse_pickles(self, beside_safetensors: bool) -> None:
        pickles = [file for file in sorted(self.path.iterdir()) if file.suffix in PICKLES]
        if not pickles:
            return
        raise pickle_error(pickles[0], beside_safetensors)


def is_pickle(file: Path) -> bool:
    """True if the first bytes are those of a pickle, or of the zip file that torch saves one in."""
    try:
        with file.open("rb") as content:
            start = content.read(3)
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from None
    return len(start) == 3 and (
        start == b"PK\3" or (start[0] == 0x80 and 2 <= start[1] <= 5 and start[2] != 0)
    )


def pickle_error(file: Path, beside_safetensors: bool) -> DataError:
    """Error that says why the pickle is refused and what to do instead."""
    remedy = (
        "delete it, since the weights are in the safetensors file too."
        if beside_safetensors
        else "in an environment where you trust it, load it with transformers and save it with "
        "`model.save_pretrained(folder)`, or fetch the model's safetensors file."
    )
    return DataError(
        f"{file}: is a pickle, which can run any program when it is loaded, so Regard "
        f"refuses folders that have one; {remedy}"
    )


def _tensors(file: Path) -> Iterator[tuple[str, Tensor]]:
    try:
        with safe_open(file, "pt") as content:
            for name in content.keys():  # noqa: SIM118  not a dictionary
                yield name, content.get_tensor(name)
    except DataError:
        raise
    except Exception as error:  # the library raises several kinds
        raise DataError(f"{file}: damaged or truncated ({error}); fetch it again.") from None
