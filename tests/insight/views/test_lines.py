"""Lines between tokens: the numbers of the lines are the weights (mouse and keys: test_render)."""

from typing import Any

import numpy as np

from regard.insight.picture import Picture


def test_lines_have_the_weights_of_all_selected_heads(show: Any, hands: Any, rich: Picture) -> None:
    show(rich, "#view=lines&panel=cross&layer=1&heads=1,3")
    weights = rich.panel("cross").weights[0]
    drawn = hands.script(
        "return [...document.querySelectorAll('#threads path')].map(({dataset: d}) => "
        "[d.head, d.query, d.key, d.weight].map(Number))"
    )
    indices = {tuple(map(int, line[:3])) for line in drawn}
    expected = np.argwhere(weights >= 0.01)
    assert indices == {(h, q, k) for h, q, k in expected.tolist() if h in (0, 2)}
    for head, query, key, weight in drawn:
        assert abs(weights[int(head), int(query), int(key)] - weight) < 6e-5
