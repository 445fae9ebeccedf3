"""Damaged and hostile files of other libraries: a sentence, never a traceback or a huge buffer."""

import json
import random
import resource
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.data.config import Direction
from regard.errors import DataError, RegardError
from regard.interchange.folder import ModelFolder
from regard.interchange.importing import import_model
from regard.interchange.llama2c import Checkpoint
from regard.interchange.sentencepiece import read_sentencepiece
from regard.interchange.tokenizers import tokenizer_of
from regard.positions.sinusoidal import sinusoids

from .conftest import byte_level, saved, word_pieces
from .test_importing import bert, gpt2, marian, rewrite

DIRECTION = Direction("fr", "en")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = byte_level(["<|endoftext|>"])
    folder = tmp_path_factory.mktemp("gpt2") / "theirs"
    return saved(gpt2(tokenizer.get_vocab_size()), tokenizer, folder)


@pytest.fixture
def broken(small: Path, folder: Path) -> Path:
    """A copy of a whole folder, to be broken."""
    return Path(shutil.copytree(small, folder))


def message(folder: Path, run: Path) -> str:
    """The sentence by which an import is refused, or "" if it is not."""
    refusal = ""
    try:
        import_model(folder, run, DIRECTION)
    except RegardError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert run.exists() == (not refusal)
    shutil.rmtree(run, ignore_errors=True)
    return refusal


def shard(folder: Path, **changes: str | None) -> None:
    """Split the weights in two files with an index; `changes` are other places of tensors."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    index = {name: f"part-{int(i > 5)}.safetensors" for i, name in enumerate(names)}
    for file in set(index.values()):
        save_file({name: tensors[name] for name in names if index[name] == file}, folder / file)
    weight_map = {name: place for name, place in {**index, **changes}.items() if place is not None}
    content = json.dumps({"weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(content)


def test_weights_in_several_files(broken: Path, tmp_path: Path) -> None:
    shard(broken)
    assert message(broken, tmp_path / "run") == ""
    shutil.copy(broken / "part-0.safetensors", broken / "part-2.safetensors")
    assert "does not name this file" in message(broken, tmp_path / "run")
    (broken / "model.safetensors.index.json").unlink()
    assert "which part-0.safetensors has too" in message(broken, tmp_path / "run")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("../outside.safetensors", "not a file of the folder"),
        ("/etc/passwd", "not a file of the folder"),
        ("part-9.safetensors", "part-9.safetensors: is missing"),
        ("part-1.safetensors", "places in part-1.safetensors"),
        (["part-1.safetensors"], "not a file of the folder"),
    ],
)
def test_index_that_does_not_describe_the_files(
    place: Any, expected: str, broken: Path, tmp_path: Path
) -> None:
    shard(broken, **{"transformer.h.0.attn.c_attn.bias": place})
    assert expected in message(broken, tmp_path / "run")


def test_weights_beside_the_model(broken: Path, tmp_path: Path) -> None:
    shutil.copy(broken / "model.safetensors", broken / "consolidated.safetensors")
    assert "is not part of them" in message(broken, tmp_path / "run")
    (broken / "consolidated.safetensors").unlink()
    (broken / "adapter_config.json").write_text("{}")
    assert "an adapter" in message(broken, tmp_path / "run")


def change_tensor(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    tensors = load_file(folder / "model.safetensors")
    changed = change(tensors.pop(name))
    if changed is not None:
        tensors[name] = changed.contiguous()
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t.to(torch.int8), "of type int8"),
        (lambda t: t.to(torch.float8_e4m3fn), "of type float8"),
        (lambda t: t[:-1], "has the shape"),
        (lambda t: t.flatten(), "shape"),
        (lambda t: t[..., None], "shape"),
        (lambda t: t.fill_(float("nan")), "not finite"),
        (lambda t: t[:0], "shape"),
        (lambda _: None, "have no h.1.mlp.c_fc.weight"),
    ],
)
def test_tensors_that_do_not_fit(
    change: Callable[[Any], Any], expected: str, broken: Path, tmp_path: Path
) -> None:
    change_tensor(broken, "transformer.h.1.mlp.c_fc.weight", change)
    assert expected in message(broken, tmp_path / "run")


def test_surplus_tensor_is_named(broken: Path, tmp_path: Path) -> None:
    tensors = load_file(broken / "model.safetensors")
    tensors["transformer.h.0.attn.q_norm.weight"] = torch.ones(8)
    save_file(tensors, broken / "model.safetensors")
    assert "h.0.attn.q_norm.weight, which config.json does not explain" in message(
        broken, tmp_path / "run"
    )


def test_positions_other_than_sinusoids_are_refused(folder: Path, tmp_path: Path) -> None:
    tokenizer = byte_level(["<pad>", "<unk>", "<s>", "</s>"])
    saved(marian(tokenizer.get_vocab_size(), False), tokenizer, folder)
    tensors = load_file(folder / "model.safetensors")
    table = sinusoids(torch.arange(64), 32, 10_000.0, "halves")
    name = "model.encoder.embed_positions.weight"
    save_file({**tensors, name: table}, folder / "model.safetensors")
    assert message(folder, tmp_path / "run") == ""
    save_file({**tensors, name: table.flip(1)}, folder / "model.safetensors")
    assert "not the table of positions" in message(folder, tmp_path / "run")


def test_segments_that_would_be_broadcast_are_refused(folder: Path, tmp_path: Path) -> None:
    tokenizer = word_pieces()
    saved(bert(tokenizer.get_vocab_size(), False), tokenizer, folder)
    name = "embeddings.token_type_embeddings.weight"
    change_tensor(folder, name, lambda table: table[:, :1])
    assert "token_type_embeddings" in message(folder, tmp_path / "run")


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("content", [DEEP, '{"a": ' * 9_000, "", "[]", "null", "\ufeff{}", "{"])
@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
def test_json_that_is_no_description(name: str, content: str, broken: Path, tmp_path: Path) -> None:
    (broken / name).write_text(content, encoding="utf-8")
    assert name in message(broken, tmp_path / "run")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),  # when it is read
        ("decoder", {"type": "Strip", "content": "A", "start": 99, "stop": 99}),  # when it is used
    ],
)
def test_panic_of_the_tokenizers_library_is_a_sentence(
    key: str, value: Any, broken: Path, tmp_path: Path
) -> None:
    rewrite(broken, "tokenizer.json", **{key: value})
    assert "cannot be used" in message(broken, tmp_path / "run")


def test_odd_vocabularies_are_refused(broken: Path, tmp_path: Path) -> None:
    content = json.loads((broken / "tokenizer.json").read_text())
    (broken / "tokenizer.json").unlink()
    vocabulary = dict(content["model"]["vocab"])
    merges = "\n".join(" ".join(pair) for pair in content["model"]["merges"])
    (broken / "merges.txt").write_text(merges)
    piece = max(vocabulary, key=vocabulary.__getitem__)
    for token in (-1, 10**9, 2**70, "3", 1.5, None, [1], 0):
        (broken / "vocab.json").write_text(json.dumps({**vocabulary, piece: token}))
        assert "vocab.json" in message(broken, tmp_path / "run"), token
    (broken / "vocab.json").write_text(json.dumps(vocabulary))
    assert message(broken, tmp_path / "run") == ""
    (broken / "merges.txt").write_text("a b c d\nx\n")
    assert "tokenizer" in message(broken, tmp_path / "run")


def sentencepiece(*pieces: tuple[str, float]) -> bytes:
    """The bytes of a SentencePiece model."""
    content = b""
    for text, score in pieces:
        raw = text.encode()
        inner = b"\x0a" + bytes([len(raw)]) + raw + b"\x15" + struct.pack("<f", score)
        content += b"\x0a" + bytes([len(inner)]) + inner
    return content


PIECES = sentencepiece(("<unk>", 0.0), ("a", -1.0), ("b", -2.0), ("ab", -1.5))


@pytest.mark.parametrize(
    "content",
    [
        b"\x0a" + b"\xff" * 100_000,  # a number without an end
        b"\x0a\x06\x0a\x01a\x10\xff\xff",  # the score is a number of any size
        b"\x0a\x0c\x0a\x01a\x10\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x08\x05",  # a piece that is a number
        PIECES[:-2],
        sentencepiece(("a", float("nan"))),
        sentencepiece(("a", 0.0), ("a", 0.0)),
        sentencepiece(("", 0.0)),
    ],
)
def test_damaged_sentencepiece_models_are_refused(content: bytes, broken: Path) -> None:
    (broken / "tokenizer.json").unlink()
    (broken / "tokenizer.model").write_bytes(content)
    with pytest.raises(DataError, match=r"tokenizer\.model"):
        tokenizer_of(ModelFolder(broken))


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "sizes",
    [
        (64, 172, 2**31 - 1, 8, 4, 512, 512),
        (2**30, 2**31 - 1, 2**31 - 1, 2, 1, 2**31 - 1, 2**31 - 1),
        (-64, 172, 5, 8, 4, 512, 512),
        (64, 172, 5, 0, 4, 512, 512),
        (64, 172, 5, 8, 4, -(2**31), 512),
    ],
)
def test_llama2c_headers_are_compared_with_the_size_of_the_file(
    sizes: tuple[int, ...], version: int, tmp_path: Path
) -> None:
    header = struct.pack("<7i", *sizes)
    if version:
        header = (struct.pack("<Ii", 0x616B3432, 1) + header).ljust(256, b"\0")
    (tmp_path / "model.bin").write_bytes(header + bytes(10_000))
    with pytest.raises(DataError, match=r"model\.bin"):
        Checkpoint(tmp_path / "model.bin")


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Change, insert, repeat or drop a few bytes."""
    content = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        at = draw.randrange(len(content) + 1)
        kind = draw.randrange(5)
        if kind == 0:
            content[at : at + 1] = bytes([draw.randrange(256)])
        elif kind == 1:
            content[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 9)))
        elif kind == 2:
            del content[at : at + draw.randrange(1, 40)]
        elif kind == 3:
            content = content[:at] or content
        else:
            content[at:at] = content[at : at + 30]
    return bytes(content)


JUNK = [-1, 0, 10**30, 1.5, 1e308, "x", "\ud800", None, True, [], [[]], {}, {"a": []}, [1, "a"]]


def mutations(folder: Path, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Mutated versions of every file of a folder."""
    for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors"):
        data = (folder / name).read_bytes()
        # In a large file most bytes are values or pieces: damage its description.
        head, tail = data[:3_000], data[3_000:]
        for _ in range(12):
            yield name, mutated(head, draw) + tail
        if name.endswith(".json"):
            content = json.loads(data)
            for key in draw.sample(sorted(content), min(12, len(content))):
                junk = draw.choice(JUNK)
                yield name, json.dumps({**content, key: junk}).encode()


def test_mutated_folders_are_refused_with_a_sentence(
    small: Path, folder: Path, tmp_path: Path
) -> None:
    draw = random.Random(5)
    shutil.copytree(small, folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = []
    for name, content in mutations(small, draw):
        (folder / name).write_bytes(content)
        outcomes.append(message(folder, tmp_path / "run") == "")
        shutil.copy(small / name, folder / name)
    assert 0 < sum(outcomes) < len(outcomes)  # damage may be in a part that is not read
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


def test_mutated_sentencepiece_models_are_refused_with_a_sentence(tmp_path: Path) -> None:
    draw = random.Random(6)
    path = tmp_path / "tokenizer.model"
    refused = 0
    for _ in range(300):
        path.write_bytes(mutated(PIECES, draw))
        try:
            read_sentencepiece(path)
        except DataError:  # and nothing else
            refused += 1
    assert 100 < refused < 300


def test_changed_config_of_sentence_transformers(folder: Path, tmp_path: Path) -> None:
    tokenizer = word_pieces()
    saved(bert(tokenizer.get_vocab_size(), False), tokenizer, folder)
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "1_Pooling").mkdir()

    def outcome(modules: Any, pooling: Any, length: Any = None, prompt: Any = None) -> str:
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        rewrite(folder, "sentence_bert_config.json", max_seq_length=length)
        rewrite(folder, "config_sentence_transformers.json", default_prompt_name=prompt)
        return message(folder, tmp_path / "run")

    mean = {"pooling_mode_mean_tokens": True}
    assert outcome(modules, mean) == ""
    for path in ("..", "../..", "/etc", "", None, 7, "1_Pooling/.."):
        assert "modules.json" in outcome([modules[0], {**modules[1], "path": path}], mean), path
    assert "0_Transformer" in outcome([{**modules[0], "path": "0_Transformer"}, modules[1]], mean)
    for pooling in ({"pooling_mode": 3}, {"pooling_mode": ["cls", 2]}, {"pooling_mode": {}}, {}):
        assert "pooling" in outcome(modules, pooling)
    for length in (0, -1, 1.5, "9", [9]):
        assert "max_seq_length" in outcome(modules, mean, length)
    assert "default_prompt_name" in outcome(modules, mean, prompt="query")
