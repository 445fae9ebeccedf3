"""Models of llama2.c: parity with published output; damaged files are refused."""

import os
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import regard
from regard import loading, run_folder
from regard.cli import main
from regard.engine import select
from regard.errors import DataError
from regard.interchange.exports import huggingface
from regard.interchange.importing import import_model
from regard.interchange.llama2c import Checkpoint, pairs_to_halves

STORIES = Path(__file__).parents[3] / "shared" / "data" / "stories260K"

# llama2.c, doc/stories260K.md: `./run stories260K.bin -z tok512.bin -t 0.0`, of 256 tokens.
PUBLISHED = """\
Once upon a time, there was a little girl named Lily. She loved to play outside in the park. \
One day, she saw a big, red ball. She wanted to play with it, but it was too high.
Lily's mom said, "Lily, let's go to the park." Lily was sad and didn't know what to do. \
She said, "I want to play with your ball, but I can't find it."
Lily was sad and didn't know what to do. \
She said, "I'm sorry, Lily. I didn't know what to do."
Lily didn't want to help her mom, so she said, "I'm sorry, mom. I didn't know what to do." \
Her mom said, "Don't worry, Lily. We can help you."""


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not STORIES.is_dir():
        missing = f"{STORIES} is not there: a real model cannot be read"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    run = tmp_path_factory.mktemp("stories") / "run"
    import_model(STORIES, run)
    return run


@pytest.mark.parametrize("engine", [True, False])
def test_published_story_is_reproduced(
    engine: bool,
    stories: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not engine:
        for module in (select, loading):
            monkeypatch.setattr(module, "library", lambda: None)
    assert regard.load(stories).engine_model.uses_engine == (
        engine and select.library() is not None
    )
    monkeypatch.setattr(sys, "argv", ["regard", "generate", str(stories), "--max-tokens", "256"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert capsys.readouterr().out == PUBLISHED + "\n"


def test_generation_stops_at_the_start_token(stories: Path) -> None:
    language_model = regard.load(stories)
    story = language_model.generate("", 500)
    assert story.startswith(PUBLISHED)
    assert len(language_model.encode(story)) < 500  # by itself
    assert language_model.score([story])[0].token_log_probs[-1] > -2  # which was to be expected


def test_prompt_keeps_its_leading_space(stories: Path) -> None:
    language_model = regard.load(stories)
    generated = language_model.generate("Tom went", 12)
    assert generated.startswith(" for a walk")
    assert "".join(language_model.stream("Tom went", 12)) == generated
    assert "".join(language_model.speculate("Tom went", 12)) == generated
    with pytest.raises(DataError, match=r"1,402 tokens.*512"):
        language_model.generate("Tom had a dog. " * 200)


def test_tokenizer_merges_like_llama2c(stories: Path) -> None:
    """The algorithm of llama2.c: merge the best pair of all until there is none."""
    data = (STORIES / "tok512.bin").read_bytes()
    pieces, at = {}, 4
    while at < len(data):
        score, length = struct.unpack_from("<fi", data, at)
        pieces.setdefault(data[at + 8 : at + 8 + length], (len(pieces), score))
        at += 8 + length
    by_id = {number: piece for piece, (number, _) in pieces.items()}

    def encode(text: str) -> list[int]:
        ids = [pieces[b" "][0]] if text else []
        for letter in text:
            whole = letter.encode()
            ids += [pieces[whole][0]] if whole in pieces else [byte + 3 for byte in whole]
        while True:
            joins = [
                (-pieces[both][1], i, pieces[both][0])
                for i in range(len(ids) - 1)
                if (both := by_id[ids[i]] + by_id[ids[i + 1]]) in pieces
            ]
            if not joins:
                return ids
            _, i, joined = min(joins)
            ids[i : i + 2] = [joined]

    ours = regard.load(stories).tokenizer
    for text in (PUBLISHED, "", " ", "  two  spaces ", "Ünïcode ½ 🦊", "tab\there", "</s> 12.5 %"):
        assert ours.encode(text) == encode(text), text
        assert ours.decode(ours.encode(text)) == text


def test_llama2c_model_equals_hugging_face(stories: Path, tmp_path: Path) -> None:
    huggingface.export(run_folder.read(stories), tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert isinstance(theirs, transformers.LlamaForCausalLM)
    language_model = regard.load(stories)
    ids = torch.tensor([language_model.encode(PUBLISHED)])
    with torch.inference_mode():
        torch.testing.assert_close(
            language_model.model(ids), theirs(ids).logits, atol=1e-4, rtol=1e-4
        )
    assert theirs.config.eos_token_id == theirs.config.bos_token_id == 1


def test_rotary_pairs_and_halves_are_permutations_of_each_other() -> None:
    from regard.positions.rotary import Rotary

    x, weight, positions = torch.randn(5, 12), torch.randn(2 * 8, 12), torch.arange(5)

    def scores(pairs: Any, weight: torch.Tensor) -> torch.Tensor:
        q = (x @ weight.T).view(5, 2, 8).transpose(0, 1)
        turned = Rotary(8, 10_000.0, pairs).rotate(q, positions)
        return turned @ turned.transpose(1, 2)

    torch.testing.assert_close(
        scores("halves", pairs_to_halves(weight, 8)), scores("adjacent", weight)
    )


def checkpoint(version: int, tied: bool, folder: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """A random model in either version, and its tensors by their names in llama2.c."""
    dim, ffn_dim, layers, heads, kv_heads, vocabulary, context = 16, 24, 2, 4, 2, 262, 32
    draw = np.random.default_rng(1)
    per_layer = {
        "attention_norm": (dim,), "wq": (dim, dim), "wk": (dim // 2, dim), "wv": (dim // 2, dim),
        "wo": (dim, dim), "ffn_norm": (dim,), "w1": (ffn_dim, dim), "w2": (dim, ffn_dim),
        "w3": (ffn_dim, dim),
    }  # fmt: skip
    shapes = {name: (layers, *shape) for name, shape in per_layer.items()}
    shapes |= {"tokens": (vocabulary, dim), "norm": (dim,), "output": (vocabulary, dim)}
    made = {name: draw.normal(0, 0.3, shape).astype("<f4") for name, shape in shapes.items()}
    angles = np.arange(context)[:, None] * 10_000.0 ** -(np.arange(0, 4, 2) / 4)
    made |= {"cos": np.cos(angles).astype("<f4"), "sin": np.sin(angles).astype("<f4")}
    sizes = (dim, ffn_dim, layers, heads, kv_heads, vocabulary, context)
    if version:
        order = ["attention_norm", "ffn_norm", "norm", "tokens", "wq", "wk", "wv", "wo"]
        order += ["w1", "w2", "w3"]
        start = struct.pack("<Ii7iB", 0x616B3432, version, *sizes, tied).ljust(256, b"\0")
    else:
        order = ["tokens", *per_layer, "norm", "cos", "sin"]
        signed = [vocabulary if tied else -vocabulary]
        start = struct.pack("<7i", *sizes[:5], *signed, context)
    order += [] if tied else ["output"]
    folder.mkdir(exist_ok=True)
    file = folder / "model.bin"
    file.write_bytes(start + b"".join(made[name].tobytes() for name in order))
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{i:02X}>" for i in range(256)), " ", "a", " a"]
    packed = b"".join(struct.pack("<fi", 0.0, len(p)) + p.encode() for p in pieces)
    (folder / "tokenizer.bin").write_bytes(struct.pack("<i", 7) + packed)
    return file, made


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("tied", [True, False])
def test_every_tensor_is_read_from_its_offset(version: int, tied: bool, tmp_path: Path) -> None:
    file, made = checkpoint(version, tied, tmp_path)
    weights = Checkpoint(file).weights()
    names = {
        "attention_norm": "input_layernorm", "wv": "self_attn.v_proj", "wo": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm", "w1": "mlp.gate_proj", "w2": "mlp.down_proj",
        "w3": "mlp.up_proj",
    }  # fmt: skip
    for theirs, name in names.items():
        for layer in range(2):
            tensor = weights[f"model.layers.{layer}.{name}.weight"]
            assert np.array_equal(tensor.numpy(), made[theirs][layer]), name
    assert np.array_equal(weights["model.embed_tokens.weight"].numpy(), made["tokens"])
    assert ("lm_head.weight" in weights) != tied
    import_model(file, tmp_path / "run")
    language_model = regard.load(tmp_path / "run")
    assert language_model.tokenizer.end == language_model.bos[0] == 1
    last = language_model.model.output.weight.detach().numpy()
    assert np.array_equal(last, made["tokens" if tied else "output"])


def refused(source: Path, message: str, run: Path) -> None:
    with pytest.raises(DataError, match=message):
        import_model(source, run)
    assert not run.exists()


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    folder, run = tmp_path / "model", tmp_path / "run"
    file, made = checkpoint(0, True, folder)
    whole = file.read_bytes()
    for content, message in (
        (whole[:-4], "truncated"),
        (whole + b"\0", "truncated"),
        (whole[:20], "too few"),
        (b"", "too few"),
        (b"hello there, this is no model at all", "are not the sizes"),
        (struct.pack("<7i", 16, 24, 2, 3, 3, 262, 32) + whole[28:], "are not the sizes"),
        (struct.pack("<Ii", 0x616B3432, 2).ljust(300, b"\0"), "--version 1"),
        (b"\x80\x02}q\x00.", "is a pickle"),
        (b"PK\x03\x04" + whole, "is a pickle"),
        (
            whole.replace(made["norm"].tobytes(), b"\xff" * made["norm"].nbytes),
            "values that are not finite",
        ),
        (whole.replace(made["cos"].tobytes(), made["sin"].tobytes()), "other angles"),
    ):
        file.write_bytes(content)
        refused(folder, message, run)
    file.write_bytes(whole)
    (folder / "other.bin").write_bytes(whole)
    refused(folder, "2 models.*give the path", run)
    import_model(file, tmp_path / "named")
    (folder / "other.bin").rename(folder / "tok2.bin")
    refused(folder, "tok2.bin and tokenizer.bin", run)
    (folder / "tok2.bin").unlink()
    words = (folder / "tokenizer.bin").read_bytes()
    for content, message in (
        (words[:-1], "truncated"),
        (words[:-10], "has 261 pieces and the model 262"),
        (words.replace(b"<0x41>", b"<0x42>"), "its first pieces"),
        (b"", "not a tokenizer"),
        (words[:4] + words[8:], "not a tokenizer"),
    ):
        (folder / "tokenizer.bin").write_bytes(content)
        refused(folder, message, run)
    (folder / "tokenizer.bin").unlink()
    refused(folder, "needs one tokenizer.*there is none", run)
    file.rename(folder / "tok.bin")
    refused(folder, "no model", run)
