"""Tokenizer kinds: common properties, and those of each kind."""

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain, combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.config import kinds, plain, validate
from regard.data import bundled
from regard.data.tokenizers import unigram
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.pipeline import word_backend
from regard.data.tokenizers.tokenizer import BYTES, SPECIAL, Tokenizer
from regard.errors import ConfigError, DataError

LINES = [
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "The animal didn't cross the street because it was too tired.",
    "Est-ce que le chat dort ?  Oui,\n\n    il dort.",
]
LEARNED = ["bpe", "unigram", "word"]
MADE_HERE = [*((kind, spaces) for kind in LEARNED for spaces in ("collapse", "keep"))]
MADE_HERE += [("character", ""), ("byte", "")]
WHITE_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


def spec(kind: str, spaces: str = "", vocabulary: int = 0) -> TokenizerSpec:
    settings = {"spaces": spaces, "vocabulary": vocabulary}
    chosen = {key: value for key, value in settings.items() if value}
    return validate(TokenizerSpec, {"kind": kind, **chosen}, "recipe")


@cache
def trained(kind: str, spaces: str = "") -> Tokenizer:
    return spec(kind, spaces).train(LINES * 3, ["fr", "en"])


@cache
def sentences() -> list[str]:
    drawn = bundled.corpus(seed=1, train=400, dev=50, pronouns=10)
    return [side for pair in drawn.train for side in (pair.french, pair.english)]


def collapsed(text: str) -> str:
    return WHITE_SPACE.sub(" ", unicodedata.normalize("NFC", text)).strip(" ")


def test_tokenizer_kinds() -> None:
    assert set(kinds("regard.data.tokenizers")) == {*dict(MADE_HERE), "file"}
    assert plain(validate(TokenizerSpec, {}, "recipe"))["kind"] == "bpe"
    assert [spec(kind).needs_text for kind in dict(MADE_HERE)] == [True, True, True, True, False]
    assert all(spec(kind).files() == [] for kind in dict(MADE_HERE))


# --- what every kind made here promises -----------------------------------------------------------

characters = st.characters(exclude_categories=["Cs", "Cn"])
awkward = st.sampled_from(
    [
        *("</s>", "<fr>", "<0x41>", "<", "▁", "Ġ", "�", "\ufeff", "\u2028", "\0", "\r\n", "  "),
        *("e\u0301", "\u0301", "🦊", "👩\u200d👩\u200d👧", "猫", "\u00a0?", "l'", "chat", " the"),
    ]
)
texts = st.lists(awkward | st.text(characters, max_size=5), max_size=8).map("".join)


@pytest.mark.parametrize(("kind", "spaces"), MADE_HERE)
@settings(max_examples=50)
@given(text=texts)
@example(text="</s>")
@example(text="<0x41>")
@example(text="▁▁ ▁")
@example(text=" \n\t\x85 a \x0b\u2028b\u3000")
def test_any_text_is_restored(kind: str, spaces: str, text: str) -> None:
    tokenizer = trained(kind, spaces)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == (collapsed(text) if spaces == "collapse" else text)
    assert tokenizer.unknown not in ids
    assert not set(ids) & set(range(6))  # special pieces and tags
    assert tokenizer.encode_all([text]) == [ids]


@pytest.mark.parametrize("kind", [kind for kind, spaces in MADE_HERE if spaces != "collapse"])
@settings(max_examples=30)
@given(texts, texts)
def test_lossless_ids_can_be_concatenated(kind: str, one: str, other: str) -> None:
    tokenizer = trained(kind, "keep" if kind in LEARNED else "")
    assert tokenizer.decode(tokenizer.encode(one) + tokenizer.encode(other)) == one + other


@pytest.mark.parametrize(("kind", "spaces"), MADE_HERE)
def test_vocabulary_has_the_documented_order(kind: str, spaces: str) -> None:
    tokenizer = trained(kind, spaces)
    pieces = tokenizer.vocabulary()
    assert pieces[:262] == [*SPECIAL, "<fr>", "<en>", *BYTES]
    assert len(set(pieces)) == len(pieces) == len(tokenizer)
    assert "" not in pieces
    assert tokenizer.special_id("en") == 5


@pytest.mark.parametrize("kind", dict(MADE_HERE))
def test_training_is_deterministic(kind: str) -> None:
    lines = [*sentences()[:100], *(f"{chr(0x4E00 + code)}{code}" for code in range(300))]
    first, *others = (spec(kind).train(iter(lines), ["fr"]).to_json() for _ in range(3))
    assert others == [first, first]


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize("vocabulary", [300, 320, 500])
def test_equally_rare_pieces_are_dropped_deterministically(kind: str, vocabulary: int) -> None:
    lines = ["".join(map(chr, range(0x4E00 + start, 0x4E00 + start + 3))) for start in range(200)]
    first, *others = (spec(kind, "", vocabulary).train(lines).to_json() for _ in range(3))
    assert others == [first, first]


class Line(str):
    """A line that knows how many of its kind there are."""

    alive = most = 0

    def __init__(self, _: str) -> None:
        Line.alive += 1
        Line.most = max(Line.most, Line.alive)

    def __del__(self) -> None:
        Line.alive -= 1


@pytest.mark.parametrize("kind", [kind for kind in dict(MADE_HERE) if spec(kind).needs_text])
def test_training_text_is_streamed(kind: str) -> None:
    Line.most = 0
    spec(kind).train(Line(f"{LINES[number % 3]} {number}") for number in range(3000))
    assert 0 < Line.most < 1000


@pytest.mark.parametrize("kind", [kind for kind in dict(MADE_HERE) if spec(kind).needs_text])
def test_errors_of_the_line_iterator_are_raised_unchanged(kind: str) -> None:
    def lines() -> Iterator[str]:
        yield LINES[0]
        raise DataError("pairs.tsv, line 2: no text.")

    with pytest.raises(DataError, match=r"pairs\.tsv, line 2"):
        spec(kind).train(lines())


@pytest.mark.parametrize("kind", dict(MADE_HERE))
@pytest.mark.parametrize("lines", [[], [""], [" \n"], ["x"], ["\0\0 \0"], ["a" * 5000]])
def test_training_on_little_text_works(kind: str, lines: list[str]) -> None:
    tokenizer = spec(kind).train(lines)
    assert tokenizer.decode(tokenizer.encode("Le chat\0.")) == "Le chat\0."


@pytest.mark.parametrize("kind", dict(MADE_HERE))
def test_language_named_like_a_special_token_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match="'pad' cannot name a language: <pad> is another piece"):
        spec(kind).train(LINES, ["fr", "pad"])


# --- kinds with a vocabulary ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEARNED)
def test_vocabulary_does_not_exceed_its_size(kind: str) -> None:
    chosen = (spec(kind, "", size) for size in (300, 400, 9999))
    sizes = [len(each.train(sentences(), ["fr", "en"])) for each in chosen]
    assert sizes[0] <= 300
    assert sizes[1] <= 400
    assert 400 < sizes[2] < 9999


@pytest.mark.parametrize("kind", LEARNED)
def test_larger_vocabulary_gives_fewer_tokens(kind: str) -> None:
    few, many = (spec(kind, "", size).train(sentences()) for size in (350, 700))
    length = {each: sum(map(len, each.encode_all(sentences()))) for each in (few, many)}
    assert length[many] < 0.8 * length[few]


@pytest.mark.parametrize("kind", LEARNED)
def test_vocabulary_without_learned_pieces_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"recipe: vocabulary: .*300"):
        spec(kind, "", 200)
    many = [f"l{number}" for number in range(40)]
    with pytest.raises(ConfigError, match=r"tokenizer\.vocabulary: 300 .* 300 are special"):
        spec(kind, "", 300).train(LINES, many)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_rarest_characters_are_spelled_in_bytes(kind: str) -> None:
    rare = [chr(0x4E00 + code) for code in range(200)]
    tokenizer = spec(kind, "", 400).train([*LINES[:2] * 9, "".join(rare)])
    assert set(rare[-90:]) <= set(tokenizer.unknown_characters("".join(rare)))
    assert tokenizer.unknown_characters(" ".join(LINES[:2])) == []
    words = {piece.strip() for piece in tokenizer.vocabulary()}
    assert "animal" in words  # which have their part of the room
    text = "".join(rare) + " chat"
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_pre_tokenizer_splits_elisions_and_punctuation(kind: str) -> None:
    tokenizer = trained(kind)
    pieces = tokenizer.pieces(tokenizer.encode(LINES[0]))
    assert pieces[:6] == ["L'", "animal", "n'", "a", "pas", "traversé"]
    assert "didn't" in tokenizer.pieces(tokenizer.encode(LINES[1]))
    assert tokenizer.pieces(tokenizer.encode(LINES[2]))[0] == "Est-ce"


@pytest.mark.parametrize("kind", LEARNED)
def test_decomposed_accents_are_composed_unless_kept(kind: str) -> None:
    collapse, keep = trained(kind, "collapse"), trained(kind, "keep")
    assert collapse.encode("traversé") == collapse.encode("traverse\u0301")
    assert keep.encode("traversé") != keep.encode("traverse\u0301")


@pytest.mark.parametrize("kind", LEARNED)
def test_bundled_sentences_are_restored(kind: str) -> None:
    tokenizer = spec(kind, "", 600).train(sentences(), ["fr", "en"])
    assert list(map(tokenizer.decode, tokenizer.encode_all(sentences()))) == sentences()


def test_word_is_the_same_piece_at_the_start_of_a_sentence() -> None:
    tokenizer = trained("bpe")
    assert tokenizer.encode("chat") == tokenizer.encode("le chat")[1:]


# --- what is special to each ----------------------------------------------------------------------


def test_bpe_equals_the_library_trainer() -> None:
    backend = word_backend("collapse")
    trainer = trainers.BpeTrainer(vocab_size=240, show_progress=False)
    backend.train_from_iterator(sentences(), trainer)
    theirs = backend.get_vocab()
    tokenizer = spec("bpe", "", 500).train(sentences())
    assert tokenizer.vocabulary()[260:] == sorted(theirs, key=theirs.__getitem__)
    ids = [backend.encode(line).ids for line in sentences()]
    assert tokenizer.encode_all(sentences()) == [[each + 260 for each in row] for row in ids]


@pytest.fixture(scope="module")
def scores() -> dict[str, float]:
    tokenizer = spec("unigram", "", 420).train(sentences())
    return dict(json.loads(tokenizer.to_json())["model"]["vocab"][260:])


def cuts(word: str) -> Iterator[list[str]]:
    """Return all segmentations of a word."""
    places = range(1, len(word))
    for chosen in chain.from_iterable(combinations(places, number) for number in range(len(word))):
        bounds = [0, *chosen, len(word)]
        yield [word[start:end] for start, end in pairwise(bounds)]


def log_probability(cut: list[str], scores: dict[str, float]) -> float:
    return sum(scores.get(piece, -math.inf) for piece in cut)


@pytest.mark.parametrize("word", [" chat", " traverse", " the", "animal", " restaient", "zzz"])
def test_unigram_gives_the_most_probable_segmentation(word: str, scores: dict[str, float]) -> None:
    scores = {**scores, "z": min(scores.values()) - 1}
    best = max(log_probability(cut, scores) for cut in cuts(word))
    backend = Backend(models.Unigram([("<unk>", 0.0), *scores.items()], 0))
    assert log_probability(backend.encode(word).tokens, scores) == pytest.approx(best)
    others = [cut for cut in cuts(word) if cut != [word]]
    assert unigram.best_split(word, scores) == pytest.approx(
        max(log_probability(cut, scores) for cut in others)
    )


def test_unigram_probabilities_are_relative_frequencies(scores: dict[str, float]) -> None:
    assert sum(map(math.exp, scores.values())) == pytest.approx(1, abs=0.01)
    tokenizer = spec("unigram", "", 420).train(sentences())
    used = list(chain.from_iterable(tokenizer.encode_all(sentences())))
    pieces = tokenizer.vocabulary()
    commonest = max(scores, key=scores.__getitem__)
    share = used.count(pieces.index(commonest)) / len(used)
    assert math.exp(scores[commonest]) == pytest.approx(share, rel=0.01)


def test_unigram_prunes_the_least_useful_pieces() -> None:
    counts = {"a": 5, "b": 5, "c": 1, "ab": 50, "bc": 2, "abc": 40}
    assert set(unigram.prune(counts, 5)) == {"a", "b", "c", "ab", "abc"}


def test_unigram_learns_isolated_words() -> None:
    tokenizer = trained("unigram")
    assert tokenizer.pieces(tokenizer.encode("street animal chat")) == ["street", "animal", "chat"]


def test_known_word_is_one_piece_and_unknown_word_is_bytes() -> None:
    tokenizer = trained("word")
    assert tokenizer.pieces(tokenizer.encode("le chat dort")) == ["le", "chat", "dort"]
    assert bytes(each - 6 for each in tokenizer.encode("le vélo")[1:]) == " vélo".encode()
    assert tokenizer.unknown_characters("le vélo") == ["v", "é", "l", "o"]


def test_word_vocabulary_keeps_the_most_frequent() -> None:
    lines = ["un deux deux trois trois trois"] + [f"mot{number}" for number in range(60)]
    pieces = spec("word", "", 300).train(lines).vocabulary()
    assert pieces[260:263] == [" trois", " deux", " mot0"]
    assert len(pieces) == 300


def test_character_vocabulary_and_byte_fallback() -> None:
    tokenizer = trained("character")
    assert tokenizer.vocabulary()[262:] == sorted(set("".join(LINES)))
    assert tokenizer.pieces(tokenizer.encode("é\n ?")) == ["é", "⏎", "▁", "?"]
    assert bytes(each - 6 for each in tokenizer.encode("ж")) == "ж".encode()


@settings(deadline=None)
@given(texts)
def test_byte_tokenizer_encodes_utf8_bytes(text: str) -> None:
    tokenizer = trained("byte")
    assert bytes(each - 6 for each in tokenizer.encode(text)) == text.encode()
    assert len(tokenizer) == 262


# --- a file made elsewhere ------------------------------------------------------------------------


def adopt(backend: Backend, folder: Path, *languages: str) -> Tokenizer:
    path = folder / "tokenizer.json"
    backend.save(str(path))
    chosen = validate(TokenizerSpec, {"kind": "file", "path": str(path)}, "recipe")
    assert chosen.files() == [path]
    assert not chosen.needs_text
    tokenizer = chosen.train((), languages)
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.fingerprint == tokenizer.fingerprint
    assert (again.pad, again.unknown, again.start, again.end) == (
        *(tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end),
    )
    return tokenizer


def like_gpt2() -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    backend.train_from_iterator(LINES * 3, trainer)
    return backend


def like_bert() -> Backend:
    backend = Backend(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    backend.train_from_iterator(LINES * 3, trainer)
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    backend.enable_truncation(5)
    backend.enable_padding(length=8)
    return backend


def like_llama() -> Backend:
    pieces = ["<unk>", "<s>", "</s>", *BYTES, "▁", "c", "h", "a", "t", "ch", "at", "▁ch", "▁chat"]
    merges = [("c", "h"), ("a", "t"), ("▁", "ch"), ("▁ch", "at")]
    vocabulary = {piece: each for each, piece in enumerate(pieces)}
    backend = Backend(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return backend


def test_file_of_gpt2_type(tmp_path: Path) -> None:
    theirs = like_gpt2()
    tokenizer = adopt(theirs, tmp_path, "fr", "en")
    text = "The cat 🦊 <|endoftext|>\n  été"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode(LINES[0]) == theirs.encode(LINES[0]).ids
    assert tokenizer.start == tokenizer.end == theirs.token_to_id("<|endoftext|>")
    assert tokenizer.vocabulary()[-4:] == ["<pad>", "<unk>", "<fr>", "<en>"]
    assert tokenizer.pieces(tokenizer.encode("The cat\n"))[0] == "The"
    assert tokenizer.pieces(tokenizer.encode("a chat")) == ["a", "chat"]
    assert tokenizer.unknown_characters(text) == []


def test_file_of_bert_type(tmp_path: Path) -> None:
    tokenizer = adopt(like_bert(), tmp_path, "fr")
    ids = tokenizer.encode(LINES[1])
    assert tokenizer.decode(ids).startswith("the animal didn")
    assert len(ids) > 8  # neither truncated nor padded, whatever the file says
    assert (tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end) == (0, 1, 2, 3)
    assert tokenizer.vocabulary()[-1] == "<fr>"
    assert tokenizer.unknown_characters("le 猫 chat") == ["猫"]
    assert tokenizer.unknown_rate([tokenizer.encode("猫 猫 chat")]) == pytest.approx(2 / 3)


def test_file_of_llama_type(tmp_path: Path) -> None:
    tokenizer = adopt(like_llama(), tmp_path)
    assert tokenizer.decode(tokenizer.encode("chat 🦊</s>")) == "chat 🦊</s>"
    assert (tokenizer.unknown, tokenizer.start, tokenizer.end) == (0, 1, 2)
    assert tokenizer.vocabulary()[tokenizer.pad] == "<pad>"
    assert tokenizer.pieces(tokenizer.encode("chat a")) == ["chat", "▁", "a"]
    assert tokenizer.unknown_characters("chat 🦊") == ["🦊"]
    fox = tokenizer.encode("chat 🦊")
    assert tokenizer.decode(fox[:-1]).startswith("chat �")


@pytest.mark.parametrize(("kind", "spaces"), MADE_HERE)
def test_file_of_an_earlier_run_can_be_reused(kind: str, spaces: str, tmp_path: Path) -> None:
    earlier = trained(kind, spaces)
    tokenizer = adopt(Backend.from_str(earlier.to_json()), tmp_path, "fr", "en", "de")
    assert tokenizer.vocabulary() == [*earlier.vocabulary(), "<de>"]
    text = LINES[2] + " 🦊 </s> <de>"
    assert tokenizer.encode(text) == earlier.encode(text)
    assert tokenizer.unknown_characters("ж") == earlier.unknown_characters("ж")


@pytest.mark.parametrize("content", ["", "{}", '{"model": 3}', "<html>", "[1, 2]"])
def test_file_that_is_no_tokenizer_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"other\.json: not a tokenizer\.json of the tokenizers"):
        validate(TokenizerSpec, {"kind": "file", "path": path}, "recipe").train([])


def test_unreadable_tokenizer_file_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "sentencepiece.model"
    binary.write_bytes(b"\n\xff\x00\x80")
    for path, problem in [
        (tmp_path / "none.json", "cannot be read"),
        (tmp_path, "cannot be read"),
        (binary, "not a tokenizer.json"),
    ]:
        with pytest.raises(DataError, match=re.escape(f"{path}: {problem}")):
            validate(TokenizerSpec, {"kind": "file", "path": path}, "recipe").train([])
