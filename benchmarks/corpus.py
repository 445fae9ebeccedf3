"""Export Multi30k French → English as token ids, the same for every engine."""

import gzip
import json
from pathlib import Path

from regard.data.store.prepare import prepare
from regard.training.recipe import read_recipe
from shared_data import DATA

RECIPE = Path(__file__).parent.parent / "recipes" / "multi30k-fr-en.yaml"
MULTI30K = DATA / "multi30k"
FILES = {"train": "train", "dev": "val", "test": "test_2016_flickr"}


def export(folder: Path) -> Path:
    """Write {split}.jsonl (ids), {split}.fr, {split}.en (text), meta.json and tokenizer.json."""
    recipe = read_recipe(RECIPE, ["tokenizer.vocabulary=8000"])
    prepared = prepare(recipe.data, recipe.tokenizer, recipe.model.max_length)
    tokenizer = prepared.tokenizer
    folder.mkdir(parents=True)
    for split, name in FILES.items():
        sides = {}
        for language in ("fr", "en"):
            packed = (MULTI30K / f"{name}.{language}.gz").read_bytes()
            text = gzip.decompress(packed).decode("utf-8")
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
            sides[language] = tokenizer.encode_all(text.removesuffix("\n").split("\n"))
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for french, english in zip(sides["fr"], sides["en"], strict=True):
                source = [*french, tokenizer.end]
                target = [tokenizer.start, *english, tokenizer.end]
                file.write(json.dumps({"source": source, "target": target}) + "\n")
    special = {"pad": tokenizer.pad, "start": tokenizer.start, "end": tokenizer.end}
    meta = {"vocabulary": len(tokenizer), **special}
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    return folder
