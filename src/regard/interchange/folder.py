"""A Hugging Face model folder on disk: config, weights, tokenizer files. No pickles.

Loading a pickle can run any code of its author. A folder with one in it is refused, with a remedy.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.errors import DataError

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")


class ModelFolder:
    """A Hugging Face model folder; errors are DataError with the path of the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            raise DataError(f"{path}: there is no such folder; give the folder of a model.")
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

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(
                f"{self.path / name}: cannot be read ({error.strerror}); a Hugging Face model "
                f"folder has it."
            ) from None
        except ValueError as error:
            raise DataError(f"{self.path / name}: not JSON ({error}).") from None

    def has(self, name: str) -> bool:
        """True if the folder has this file."""
        return (self.path / name).is_file()

    def weights(self) -> dict[str, Tensor]:
        """All tensors by name, in float32."""
        files = sorted(self.path.glob("*.safetensors"))
        self._refuse_pickles(bool(files))
        if not files:
            raise DataError(f"{self.path}: there are no weights in it (*.safetensors).")
        tensors: dict[str, Tensor] = {}
        for file in files:
            tensors.update(_tensors(file))
        self._check_complete(tensors)
        return tensors

    def _refuse_pickles(self, beside_safetensors: bool) -> None:
        pickles = [file for file in sorted(self.path.iterdir()) if file.suffix in PICKLES]
        if not pickles:
            return
        raise pickle_error(pickles[0], beside_safetensors)

    def _check_complete(self, tensors: dict[str, Tensor]) -> None:
        """Refuse weights in several files of which one is missing."""
        if self.has("model.safetensors.index.json"):
            index = self.read_json("model.safetensors.index.json").get("weight_map", {})
            missing = sorted(set(index) - set(tensors))
            if missing:
                raise DataError(
                    f"{self.path / index[missing[0]]}: is missing or incomplete: it should have "
                    f"{missing[0]}; fetch it again."
                )


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
                yield name, content.get_tensor(name).float()
    except (SafetensorError, OSError) as error:
        raise DataError(f"{file}: damaged or truncated ({error}); fetch it again.") from None
