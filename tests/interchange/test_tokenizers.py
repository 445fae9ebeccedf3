"""Tokenizers of folders without a tokenizer.json split text like Hugging Face's own."""

import json
from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer

from regard.errors import DataError
from regard.interchange.folder import ModelFolder
from regard.interchange.sentencepiece import read_sentencepiece
from regard.interchange.tokenizers import tokenizer_of

from .conftest import TEXT, byte_level, word_pieces

sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")

LINES = [*TEXT[:4], "  two  spaces ", "Ünïcode ﬁne ½ 🦊", "tab\there", "12.5 %", ""]


def trained(kind: str, folder: Path, name: str, **more: object) -> Path:
    """A SentencePiece model of a few lines."""
    folder.mkdir(exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 20),
        model_prefix=str(folder / "made"),
        model_type=kind,
        vocab_size=150 if kind == "unigram" else 400,
        minloglevel=2,
        hard_vocab_limit=False,
        **more,
    )
    (folder / "made.model").rename(folder / name)
    return folder / name


def folder_of(path: Path, **config: object) -> ModelFolder:
    (path / "config.json").write_text(json.dumps(config))
    return ModelFolder(path)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_sentencepiece_model_tokenizes_like_the_original(kind: str, tmp_path: Path) -> None:
    more = {"byte_fallback": True} if kind == "bpe" else {}
    path = trained(kind, tmp_path / "model", "tokenizer.model", **more)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ours = tokenizer_of(folder_of(tmp_path / "model"))
    for line in LINES:
        assert ours.encode(line) == theirs.encode(line), line
        if theirs.unk_id() not in theirs.encode(line):  # which it shows as ⁇
            assert ours.decode(ours.encode(line)) == theirs.decode(theirs.encode(line)), line


def test_significant_spaces_are_kept(tmp_path: Path) -> None:
    """Llama's normalization: no space is removed, and one is always prepended."""
    more = {"byte_fallback": True, "remove_extra_whitespaces": False}
    more["normalization_rule_name"] = "identity"
    path = trained("bpe", tmp_path / "model", "tokenizer.model", **more)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ours = tokenizer_of(folder_of(tmp_path / "model"))
    for line in [*LINES, " one", "   "]:
        ids = theirs.encode(line)
        assert ours.encode(line) == ids, line
        assert ours.decode(ids) == line
        for cut in range(len(ids) + 1):  # in two parts it is the same text
            if "\ufffd" not in (before := ours.decode(ids[:cut])):
                assert before + ours.decode_after(ids[:cut])(ids[cut:]) == line


@pytest.mark.filterwarnings("ignore:Recommended")  # a package for something else
def test_marian(tmp_path: Path) -> None:
    path = tmp_path / "marian"
    source = trained("unigram", path, "source.spm")
    (path / "target.spm").write_bytes(source.read_bytes())
    pieces = [text for text, _, kind in read_sentencepiece(source).pieces if kind == 1]
    # The vocabulary is ordered otherwise than the model, and has the padding last.
    ids = {
        piece: index for index, piece in enumerate(["</s>", "<unk>", *reversed(pieces), "<pad>"])
    }
    (path / "vocab.json").write_text(json.dumps(ids))
    theirs = transformers.MarianTokenizer(
        source_spm=str(source), target_spm=str(path / "target.spm"), vocab=str(path / "vocab.json")
    )
    ours = tokenizer_of(folder_of(path, decoder_start_token_id=ids["<pad>"]))
    assert (ours.end, ours.pad) == (ids["</s>"], ids["<pad>"])
    for line in LINES:
        assert ours.encode(line) == theirs(line, add_special_tokens=False).input_ids, line


def test_byte_level_bpe_is_imported(tmp_path: Path) -> None:
    tokenizer = byte_level(["<|endoftext|>"])
    tokenizer.model.save(str(tmp_path))
    ours = tokenizer_of(folder_of(tmp_path))
    for line in LINES:
        assert ours.encode(line) == tokenizer.encode(line).ids
        assert ours.decode(ours.encode(line)) == line


def test_wordpiece_is_imported(tmp_path: Path) -> None:
    tokenizer: Tokenizer = word_pieces()
    tokenizer.model.save(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    ours = tokenizer_of(folder_of(tmp_path))
    theirs = transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"), do_lower_case=False)
    for line in LINES:
        assert ours.encode(line) == theirs(line, add_special_tokens=False).input_ids, line


def test_files_that_are_no_sentencepiece_model_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"\xff\xff", b"hello there", bytes(100)):
        (tmp_path / "tokenizer.model").write_bytes(content)
        with pytest.raises(DataError, match="not a SentencePiece model"):
            tokenizer_of(folder_of(tmp_path))
