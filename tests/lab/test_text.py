"""The training text of the lab: held-out sentences and windows."""

from regard.lab.text import pages, sentences, windows


def test_held_out_sentences_are_not_in_the_training_text() -> None:
    corpus = sentences(300)
    stop = corpus.vocabulary.index(".")

    def split_sentences(ids: list[int]) -> set[tuple[int, ...]]:
        complete, sentence = set(), list[int]()
        for token in ids:
            sentence.append(token)
            if token == stop:
                complete.add(tuple(sentence))
                sentence = []
        return complete

    train, held_out = (
        split_sentences(corpus.train.tolist()),
        split_sentences(corpus.held_out.tolist()),
    )
    assert len(train) > 200
    assert len(held_out) > 50
    # Sentences are split by their French side; some have the same English.
    assert len(train & held_out) < len(held_out) / 10


def test_windows_are_parts_of_the_text() -> None:
    text = sentences(300).train
    rows = windows(text, 5, 8, 0)
    parts = {tuple(text[start : start + 5].tolist()) for start in range(len(text) - 4)}
    assert {tuple(row) for row in rows.tolist()} <= parts
    assert not rows.equal(windows(text, 5, 8, 1))
    assert pages(text, 5, 3).flatten().equal(text[:15])
