"""The text that the lab reads: what is held out is not learned, and windows are of the text."""

from regard.lab.text import pages, sentences, windows


def test_nothing_held_out_is_learned() -> None:
    read = sentences(300)
    stop = read.words.index(".")

    def whole(words: list[int]) -> set[tuple[int, ...]]:
        found, sentence = set(), list[int]()
        for word in words:
            sentence.append(word)
            if word == stop:
                found.add(tuple(sentence))
                sentence = []
        return found

    learned, kept = whole(read.learned.tolist()), whole(read.held_out.tolist())
    assert len(learned) > 200
    assert len(kept) > 50
    # English is not one to one with French, by which sentences are told apart.
    assert len(learned & kept) < len(kept) / 10


def test_windows_are_pieces_of_the_text() -> None:
    text = sentences(300).learned
    rows = windows(text, 5, 8, 0)
    pieces = {tuple(text[at : at + 5].tolist()) for at in range(len(text) - 4)}
    assert {tuple(row) for row in rows.tolist()} <= pieces
    assert not rows.equal(windows(text, 5, 8, 1))
    assert pages(text, 5, 3).flatten().equal(text[:15])
