"""CoNLL-U: parsing, errors with their line, trees, agreement, real treebanks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.config import validate
from regard.data.batches.labeled import ParsedBatch, parsed_batches
from regard.data.config import DataSpec
from regard.data.records import Location, Record, Rejected
from regard.data.sources.base import SourceSpec
from regard.data.sources.conllu import Sentence, read_conllu
from regard.data.sources.trees import Tree, depths, token_words
from regard.data.store.prepare import prepare
from regard.data.tokenizers.base import TokenizerSpec
from regard.positions.trees import OUTSIDE


def word(number: object, form: str, head: object, relation: str = "dep", **more: str) -> str:
    given = {"tag": "X", "features": "_", "notes": "_"} | more
    middle = [given["tag"], "_", given["features"], str(head), relation, "_", given["notes"]]
    return "\t".join([str(number), form, "_", *middle])


THEY_DO_NOT = [
    "# text = They don't .",
    "# label = no",
    word(1, "They", 2),
    word("2-3", "don't", "_"),
    word(2, "do", 0),
    word("2.1", "ghost", "_"),
    word(3, "n't", 2),
    word(4, ".", 2),
]


def read(tmp_path: Path, *blocks: list[str]) -> list[Sentence | Rejected]:
    path = tmp_path / "a.conllu"
    path.write_text("".join("\n".join(block) + "\n\n" for block in blocks), "utf-8")
    return list(read_conllu(path))


def one(tmp_path: Path, *lines: str) -> Sentence:
    (sentence,) = read(tmp_path, list(lines))
    assert isinstance(sentence, Sentence), sentence
    return sentence


def test_multiword_tokens_and_empty_nodes_are_read(tmp_path: Path) -> None:
    sentence = one(tmp_path, *THEY_DO_NOT)
    assert sentence.text == "They don't ."
    assert sentence.tree == Tree(((0, 4), (5, 10), (5, 10), (11, 12)), (1, 1, 1, 1))
    assert [each.form for each in sentence.words] == ["They", "do", "n't", "."]
    assert [each.is_token for each in sentence.words] == [True, False, False, True]
    assert sentence.comments["label"] == "no"
    assert sentence.location == Location(str(tmp_path / "a.conllu"), 3)


def test_missing_text_is_built_from_tokens(tmp_path: Path) -> None:
    close = {"notes": "Gloss=x|SpaceAfter=No"}
    sentence = one(tmp_path, word(1, "Go", 0), word(2, "home", 1, **close), word(3, "!", 1))
    assert sentence.text == "Go home!"
    assert sentence.tree.spans == ((0, 2), (3, 7), (7, 8))


def test_spans_follow_the_spaces_of_the_text(tmp_path: Path) -> None:
    sentence = one(tmp_path, "# text = Go  home", word(1, "Go", 0), word(2, "home", 1))
    assert sentence.tree.spans == ((0, 2), (4, 8))


def test_features_are_read(tmp_path: Path) -> None:
    sentence = one(tmp_path, word(1, "is", 0, features="Number=Sing|Person=3", tag="AUX"))
    assert sentence.words[0].features == {"Number": "Sing", "Person": "3"}
    assert sentence.words[0].tag == "AUX"


A = word(1, "a", 0)
WRONG: dict[str, tuple[list[str], int, str, str]] = {
    "a column too few": ([A, "2\tb\t1"], 2, "bad columns", "there are 3 columns between tabs"),
    "an empty form": ([A, word(2, "", 1)], 2, "bad columns", "empty"),
    "no head": ([A, word(2, "b", "_")], 2, "missing head", "the head of 'b' is '_'"),
    "a head that is a word": ([A, word(2, "b", "a")], 2, "missing head", "is 'a'"),
    "a head below zero": ([A, word(2, "b", -1)], 2, "missing head", "is '-1'"),
    "a head outside": ([A, word(2, "b", 3)], 2, "missing head", "3, and there are 2 words"),
    "a cycle": ([A, word(2, "b", 3), word(3, "c", 2)], 2, "cycle", "above 'b' form a cycle"),
    "its own head": ([A, word(2, "b", 2)], 2, "cycle", "above 'b' form a cycle"),
    "no root": ([word(1, "a", 2), word(2, "b", 1)], 1, "cycle", "never reach a root"),
    "two roots": ([A, word(2, "b", 0)], 2, "several roots", "there are 2"),
    "a gap": ([A, word(3, "b", 1)], 2, "bad number", "word 1 is followed by 3"),
    "a name for a number": ([A, word("b", "b", 1)], 2, "bad number", "'b' is not the number"),
    "a token within a token": (
        [word("1-2", "ab", "_"), A, word("2-3", "bc", "_")],
        3,
        "bad number",
        "word 1 is followed by 2-3",
    ),
    "a token that ends early": ([word("1-0", "a", "_"), A], 1, "bad number", "ends before"),
    "a token of words that are not there": (
        [word("1-2", "ab", "_"), A],
        2,
        "words missing",
        "the tokens have 2 words, and there are 1",
    ),
    "another text": (["# text = b", A], 2, "not in the text", "'a', where the text has 'b'"),
    "more text": (["# text = a b", A], 2, "not in the text", "continues with ' b'"),
    "less text": (["# text = a", A, word(2, "b", 1)], 3, "not in the text", "'b', where"),
    "no space": (["# text = ab", A, word(2, "b", 1)], 3, "not in the text", "the text has 'b'"),
    "a space too many": (
        ["# text = a b", word(1, "a", 0, notes="SpaceAfter=No"), word(2, "b", 1)],
        3,
        "not in the text",
        "the text has ' b'",
    ),
}


@pytest.mark.parametrize(("block", "line", "why", "found"), WRONG.values(), ids=list(WRONG))
def test_invalid_sentence_is_rejected_with_its_line(
    tmp_path: Path, block: list[str], line: int, why: str, found: str
) -> None:
    before, rejected, after = read(tmp_path, [A], block, [A])
    assert isinstance(before, Sentence)
    assert isinstance(after, Sentence)  # the next one is read all the same
    assert isinstance(rejected, Rejected)
    assert rejected.location == Location(str(tmp_path / "a.conllu"), line + 2)
    assert rejected.reason == why
    assert found in rejected.detail


def test_invalid_utf8_is_rejected_once(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_bytes(b"# text = \xff\n" + A.encode().replace(b"a", b"\xff") + b"\n\n")
    (rejected,) = read_conllu(path)
    assert isinstance(rejected, Rejected)
    assert rejected.location.line == 1
    assert rejected.reason == "invalid UTF-8"


def test_comments_alone_are_no_sentence(tmp_path: Path) -> None:
    assert read(tmp_path, ["# newdoc"], [], ["# a", "# b"]) == []


# ── pieces and words ─────────────────────────────────────────────────────────────────────────────


def test_tokens_are_mapped_to_their_word() -> None:
    tree = Tree(((0, 4), (5, 10), (5, 10), (10, 11)), (1, 1, 1, 1))  # "They don't."
    pieces = [(0, 2), (2, 4), (4, 7), (7, 10), (10, 11)]
    assert token_words(pieces, tree) == [0, 0, 1, 1, 3]


def test_token_of_several_words_takes_the_highest_in_the_tree() -> None:
    spans = ((0, 2), (2, 5), (6, 7))
    for root in range(2):
        heads = tuple(root for _ in spans)
        assert token_words([(0, 5), (5, 7)], Tree(spans, heads)) == [root, 2]
    assert token_words([(0, 7)], Tree(spans, (2, 2, 2))) == [2]


def test_space_token_belongs_to_the_next_word() -> None:
    assert token_words([(0, 1), (1, 3), (3, 4)], Tree(((0, 1), (3, 4)), (0, 0))) == [0, 1, 1]
    assert token_words([(0, 1), (1, 2)], Tree(((0, 1),), (0,))) == [0, 0]


def test_depths_detect_cycles() -> None:
    assert depths([0, 0, 1, 2]) == [0, 1, 2, 3]
    assert depths([0, 2, 1]) == [0, -1, -1]


# ── sources ──────────────────────────────────────────────────────────────────────────────────────


def records(tmp_path: Path, *lines: str, **given: Any) -> list[Record | Rejected]:
    (tmp_path / "a.conllu").write_text("\n".join(lines) + "\n", "utf-8")
    given = {"kind": "conllu", "path": tmp_path / "a.conllu", **given}
    return list(validate(SourceSpec, given, "recipe").records())


def test_labels_are_read_from_comments(tmp_path: Path) -> None:
    (record,) = records(tmp_path, *THEY_DO_NOT)
    assert isinstance(record, Record)
    assert (record.texts, record.labels) == (("They don't .",), ("no",))
    assert record.tree is not None
    (rejected,) = records(tmp_path, *THEY_DO_NOT, comment="mood")
    assert isinstance(rejected, Rejected)
    assert rejected.reason == "missing label"


FINITE = "VerbForm=Fin|Person=3|Number="
KEYS = [
    word(1, "keys", 4, "nsubj", tag="NOUN", features="Number=Plur"),
    word(2, "of", 3, "case"),
    word(3, "Rome", 1, "nmod", tag="PROPN", features="Number=Sing"),
    word(4, "lost", 0, "root", tag="ADJ"),
    word(5, "are", 4, "cop", tag="AUX", features=FINITE + "Plur"),
    word(6, "now", 4, "advmod"),
]


def test_agreement_blanks_the_verb_and_labels_its_number(tmp_path: Path) -> None:
    for attracted in (False, True):
        (record,) = records(tmp_path, *KEYS, kind="agreement", attracted=attracted, blank="??")
        assert isinstance(record, Record)
        assert (record.texts, record.labels) == (("keys of Rome lost ?? now",), ("Plur",))
        assert record.location.line == 5
        assert record.tree is not None
        assert record.tree.heads == (3, 2, 0, 3, 3, 3)
        spans = record.tree.spans
        assert [record.texts[0][a:b] for a, b in spans] == record.texts[0].split()


@pytest.mark.parametrize(
    ("place", "changed"),
    [
        (4, word(5, "were", 4, "cop", features="VerbForm=Fin|Number=Plur")),  # no person
        (4, word(5, "being", 4, "cop", features="VerbForm=Part|Person=3|Number=Plur")),
        (4, word(5, "are", 4, "cop", features=FINITE + "Dual")),
        (0, word(1, "keys", 4, "csubj")),
        (5, word(6, "they", 4, "nsubj")),  # two subjects
    ],
)
def test_agreement_skips_unsuitable_verbs(tmp_path: Path, place: int, changed: str) -> None:
    lines = [changed if at == place else line for at, line in enumerate(KEYS)]
    assert records(tmp_path, *lines, kind="agreement") == []


def test_attracted_requires_a_noun_of_the_other_number(tmp_path: Path) -> None:
    lines = [line.replace("Number=Sing", "Number=Plur") for line in KEYS]
    assert records(tmp_path, *lines, kind="agreement", attracted=True) == []
    assert len(records(tmp_path, *lines, kind="agreement")) == 1


# ── to the batch ─────────────────────────────────────────────────────────────────────────────────


def test_parsed_batches_have_the_trees_of_their_rows(tmp_path: Path) -> None:
    sentences = ["\n".join([f"# label = {n % 2}", *THEY_DO_NOT[2:], *extra(n)]) for n in range(20)]
    (tmp_path / "a.conllu").write_text("\n\n".join(sentences), "utf-8")
    given = {"train": {"kind": "conllu", "path": tmp_path / "a.conllu"}, "dev_size": 1}
    data = validate(DataSpec, {**given, "prepared": tmp_path / "prepared"}, "recipe")
    prepared = prepare(data, TokenizerSpec.model_validate("byte"), 100)
    assert len(prepared.train) == 19
    pad = prepared.tokenizer.pad
    seen = 0
    for batch in parsed_batches(prepared.train, prepared.tokenizer, 200, seed=0).epoch():
        assert isinstance(batch, ParsedBatch)
        for ids, words, token_mask, heads in zip(
            batch.ids, batch.words, batch.token_mask, batch.heads, strict=True
        ):
            text = prepared.tokenizer.decode(ids[token_mask].tolist())
            inner = words[token_mask].tolist()[1:-1]
            assert words[token_mask].tolist()[0] == words[token_mask].tolist()[-1] == OUTSIDE
            assert (ids[~token_mask] == pad).all()
            assert len(inner) == len(text)  # a byte a piece
            assert [inner[text.index(each)] for each in ("They", "don't", ".")] == [0, 1, 3]
            more = len(text.split()) - 3
            assert heads.tolist()[: 4 + more] == [1, 1, 1, 1, *[3] * more]
            seen += 1
        first, second = batch.shard(0, 2), batch.shard(1, 2)
        if len(batch.ids) > 1:
            assert len(first.ids) + len(second.ids) == len(batch.ids)
        else:
            assert second.num_targets == 0
        assert batch.inputs[2].depths.shape == batch.ids.shape
    assert seen == 19
    row = np.arange(1)
    assert len(prepared.train.trees(row)[0][0]) == len(prepared.train.ids(row, row)[0])


def extra(count: int) -> list[str]:
    return [word(5 + n, "so", 4) for n in range(count)]


@pytest.mark.parametrize("name", ["de-pud", "en-pud", "fr-pud"])
def test_real_treebanks_are_read_completely(shared_data: Path, name: str) -> None:
    sentences = list(read_conllu(shared_data / "treebanks" / name / "test.conllu.gz"))
    assert len(sentences) == 1000
    for sentence in sentences:
        assert isinstance(sentence, Sentence)
        assert depths(sentence.tree.heads).count(0) == 1
        for each, (begin, end) in zip(sentence.words, sentence.tree.spans, strict=True):
            assert not each.is_token or sentence.text[begin:end] == each.form
