"""ALiBi: the slopes of the paper."""

from regard.positions.alibi import slopes


def test_slopes_match_the_paper() -> None:
    assert slopes(8) == [2**-h for h in range(1, 9)]
    assert len(slopes(6)) == 6
    assert slopes(6)[:4] == slopes(4)
