"""The tokenizer of a Hugging Face folder: its tokenizer.json, or one built from older files.

vocab.json + merges.txt                     GPT-2, RoBERTa: byte-level BPE
vocab.txt                                   BERT: WordPiece
source.spm, target.spm + vocab.json         Marian: SentencePiece with other ids
spiece.model, tokenizer.model               T5, Llama: SentencePiece
"""

import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.data.tokenizers.library_errors import library_errors
from regard.data.tokenizers.tokenizer import END, MASK, PAD, START, Tokenizer, backend_name
from regard.data.tokenizers.tokenizer import UNKNOWN as UNKNOWN_PIECE
from regard.errors import DataError
from regard.interchange.folder import ModelFolder
from regard.interchange.sentencepiece import (
    BYTE,
    CONTROL,
    UNKNOWN,
    SentencePieces,
    read_sentencepiece,
)

NEVER = -100.0  # score of a piece that is never used
LONGEST = 1_000  # characters of a piece; SentencePiece's default is 16
PROBE = "A dog, 12 chiens … \n\t ½ 🦊 \u0000"


def tokenizer_of(folder: ModelFolder, vocabulary: int | None = None) -> Tokenizer:
    """Load or build the tokenizer of a folder.

    Args:
        folder: the model folder.
        vocabulary: rows of the model's embedding; a tokenizer with more pieces is refused.
    """
    with _library_errors(folder.path, "tokenizer"):
        backend = _backend(folder)
        _check_size(backend, vocabulary, folder.path)
        return _finished(backend)


def adds_start_token(folder: ModelFolder) -> bool | None:
    """Return whether texts begin with the start token; None where no file says so.

    As in transformers, the post-processor of tokenizer.json decides; `add_bos_token` of
    tokenizer_config.json does where there is no tokenizer.json.
    """
    if not folder.has("tokenizer.json"):
        setting = _settings(folder).get("add_bos_token")
        return setting if isinstance(setting, bool) else None
    with _library_errors(folder.path, "tokenizer"):
        backend = _backend(folder)
        processed, bare = (backend.encode("a", add_special_tokens=add) for add in (True, False))
    return len(processed.ids) > len(bare.ids) and processed.ids[:1] != bare.ids[:1]


def tokenizer_of_pieces(spm: SentencePieces, path: Path) -> Tokenizer:
    """Build a tokenizer from SentencePiece pieces that were read from another format."""
    with _library_errors(path, "tokenizer"):
        return _finished(_sentencepiece(spm, path))


def _library_errors(path: Path, what: str) -> AbstractContextManager[None]:
    return library_errors(lambda why: DataError(f"{path}: the {what} cannot be used ({why})."))


def _check_size(backend: Backend, vocabulary: int | None, path: Path) -> None:
    pieces = backend.get_vocab(with_added_tokens=False)
    if not pieces:
        raise DataError(f"{path}: the tokenizer has no pieces.")
    last = max(pieces, key=pieces.__getitem__)
    if vocabulary is not None and pieces[last] >= vocabulary:
        raise DataError(
            f"{path}: the tokenizer is larger than the model's vocabulary of {vocabulary:,} "
            f"tokens: the piece {last!r} has the id {pieces[last]:,}; use the tokenizer that the "
            f"model was trained with."
        )


def _finished(backend: Backend) -> Tokenizer:
    backend.no_truncation()
    backend.no_padding()
    special = [backend_name(piece, backend) or piece for piece in (PAD, UNKNOWN_PIECE, END)]
    # The start token of a decoder may be another, and few have a mask.
    special += filter(None, [backend_name(START, backend), backend_name(MASK, backend)])
    backend.add_special_tokens(
        [AddedToken(piece, special=True) for piece in dict.fromkeys(special)]
    )
    tokenizer = Tokenizer(backend)
    tokenizer.decode(tokenizer.encode(PROBE))  # some damage shows only in use
    return tokenizer


def _backend(folder: ModelFolder) -> Backend:
    path = folder.path
    if folder.has("tokenizer.json"):
        text = folder.read_text("tokenizer.json")
        with _library_errors(path / "tokenizer.json", "file"):
            return Backend.from_str(text)
    if folder.has("source.spm") and folder.has("vocab.json"):
        return _marian(folder)
    for name in ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model"):
        if folder.has(name):
            return _sentencepiece(read_sentencepiece(path / name), path / name)
    if folder.has("vocab.json") and folder.has("merges.txt"):
        return _byte_level(folder)
    if folder.has("vocab.txt"):
        return _word_pieces(folder)
    raise DataError(
        f"{path}: there is no tokenizer in it (tokenizer.json, vocab.json and merges.txt, "
        f"vocab.txt, or a SentencePiece model)."
    )


def _byte_level(folder: ModelFolder) -> Backend:
    _read_ids(folder)
    backend = Backend(
        models.BPE.from_file(str(folder.path / "vocab.json"), str(folder.path / "merges.txt"))
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def _word_pieces(folder: ModelFolder) -> Backend:
    lower = _settings(folder).get("do_lower_case", True)
    if not isinstance(lower, bool):
        raise DataError(
            f"{folder.path / 'tokenizer_config.json'}: do_lower_case is {lower!r}, not true or "
            f"false."
        )
    backend = Backend(models.WordPiece.from_file(str(folder.path / "vocab.txt"), unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lower)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return backend


def _read_ids(folder: ModelFolder) -> dict[str, int]:
    """Read vocab.json: the id of each piece."""
    ids = folder.read_json("vocab.json")
    for piece, token in ids.items():
        if type(token) is not int or not 0 <= token < len(ids):
            raise DataError(
                f"{folder.path / 'vocab.json'}: the id of {piece!r} is {str(token)[:40]}; the "
                f"{len(ids):,} pieces have the ids from 0 to {len(ids) - 1:,}, each once."
            )
    if len(set(ids.values())) < len(ids):
        raise DataError(f"{folder.path / 'vocab.json'}: two pieces have the same id.")
    return ids


def _marian(folder: ModelFolder) -> Backend:
    """Split text with the source's SentencePiece model; ids are those of the shared vocabulary."""
    source = read_sentencepiece(folder.path / "source.spm")
    scores = {text: score for text, score, _ in source.pieces}
    ids = _read_ids(folder)
    pieces = sorted(ids, key=ids.__getitem__)
    unknown = ids.get("<unk>", 1)
    model = models.Unigram([(piece, scores.get(piece, NEVER)) for piece in pieces], unk_id=unknown)
    return _add_normalization(Backend(model), source)


def _sentencepiece(spm: SentencePieces, path: Path) -> Backend:
    _check_pieces(spm, path)
    unknown = next((i for i, piece in enumerate(spm.pieces) if piece[2] == UNKNOWN), 0)
    byte_fallback = any(kind == BYTE for _, _, kind in spm.pieces)
    if spm.is_bpe:
        model: Any = _bpe(spm, byte_fallback, path)
    else:
        vocabulary = [(text, score) for text, score, _ in spm.pieces]
        model = models.Unigram(vocabulary, unk_id=unknown, byte_fallback=byte_fallback)
    backend = _add_normalization(Backend(model), spm)
    control = [text for text, _, kind in spm.pieces if kind in (CONTROL, UNKNOWN)]
    backend.add_special_tokens(control)
    return backend


def _check_pieces(spm: SentencePieces, path: Path) -> None:
    seen: set[str] = set()
    for number, (text, score, _) in enumerate(spm.pieces):
        if not text or len(text) > LONGEST or text in seen or not math.isfinite(score):
            raise DataError(
                f"{path}: piece {number:,} is {text[:20]!r} with the score {score:g}; pieces are "
                f"different texts of 1 to {LONGEST:,} characters with finite scores."
            )
        seen.add(text)


def _bpe(spm: SentencePieces, byte_fallback: bool, path: Path) -> models.BPE:
    """BPE with a merge rule for every split of a piece into two, in the order of the scores."""
    ids = {text: i for i, (text, _, _) in enumerate(spm.pieces)}
    rules = [
        (-score, ids[text[:cut]], ids[text[cut:]], (text[:cut], text[cut:]))
        for text, score, kind in spm.pieces
        if kind == 1
        for cut in range(1, len(text))
        if text[:cut] in ids and text[cut:] in ids
    ]
    if not rules:
        raise DataError(f"{path}: a SentencePiece BPE model without merges.")
    merges = [rule for *_, rule in sorted(rules)]
    return models.BPE(ids, merges, unk_token="<unk>", byte_fallback=byte_fallback, fuse_unk=True)


def _add_normalization(backend: Backend, spm: SentencePieces) -> Backend:
    steps: list[Any] = []
    if spm.replacements:
        steps.append(normalizers.Precompiled(spm.replacements))
    if spm.trims:  # strip both ends, collapse runs of spaces
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    if spm.is_bpe:  # always prepend a space; merges may cross spaces
        steps += [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    if steps:
        backend.normalizer = normalizers.Sequence(steps)
    spaces = decoders.Replace("▁", " ")
    backend.decoder = decoders.Sequence(
        [spaces, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return backend


def _settings(folder: ModelFolder) -> dict[str, Any]:
    return folder.read_json("tokenizer_config.json") if folder.has("tokenizer_config.json") else {}
