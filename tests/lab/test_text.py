"""The training text of the lab: held-out sentences and windows."""

from regard.lab.text import pages, sentences, windows


def test_held_out_sentences_are_not_in_the_training_text() -> None:
    read = sentences(300)
    stop = read.words.index(".")

    def whole(words: list[int]) -> set[tuple[int, ...]]:
        split, sentence = set(), list[int]()
        for word in words:
            sentence.append(word)
            if word == stop:
                split.add(tuple(sentence))
                sentence = []
        return split

    train, held_out = whole(read.train.tolist()), whole(read.held_out.tolist())
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
