"""The terminal view: the keys with the largest weights, in the width of the console."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import numpy as np
import numpy.typing as npt
import pytest
from rich.cells import cell_len
from rich.console import Console

from regard.insight import terminal
from regard.insight.panels.base import Panel
from regard.insight.picture import Picture

MakeAttention = Callable[..., npt.NDArray[np.float32]]


def printed(
    picture: Picture,
    panel: str | Panel,
    layer: int | None = None,
    width: int = 80,
    colors: bool = False,
) -> str:
    out = StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colors,
        color_system="truecolor" if colors else None,
    )
    console.print(terminal.render(picture, panel, layer))
    return out.getvalue()


def rows(text: str) -> list[str]:
    """Return the table's rows, one for each query, without title and heading."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == ["token"])
    return lines[start + 1 :]


def alone(panel: Panel) -> Picture:
    return Picture("t", "", "", "", (panel,))


def test_rows_have_the_largest_weight_of_the_mean_and_of_each_head(picture: Picture) -> None:
    panel = picture.panel("cross")
    weights = panel.weights[-1]
    for query, row in enumerate(rows(printed(picture, "cross", width=120))):
        expected = [panel.queries[query], panel.predicts[query]]
        for values in (weights.mean(axis=0)[query], *weights[:, query]):
            key = int(values.argmax())
            expected += [panel.keys[key], f"{values[key]:.2f}"]
        assert row.split() == expected


def test_label_columns_are_truncated_before_heads_are_left_out(picture: Picture) -> None:
    text = printed(picture, "cross", width=80)
    heading = next(line for line in text.splitlines() if "mean" in line)
    assert heading.split()[:7] == ["token", "next", "mean", *["head", "1", "head", "2"]]
    assert "head 4" in heading
    assert rows(text)[-2].split()[:2] == ["pas", "trave…"]
    assert printed(picture, "encoder").splitlines()[2].split()[:2] == ["token", "mean"]


def test_last_layer_is_shown_by_default(picture: Picture) -> None:
    assert "Encoder self-attention, layer 3 of 3" in printed(picture, "encoder")
    first = printed(picture, picture.panel("encoder"), layer=0)
    assert "layer 1 of 3" in first
    strongest = picture.panel("encoder").weights[0].mean(axis=0)[0].max()
    assert f"{strongest:.2f}" in rows(first)[0]


def test_errors_name_unknown_panels_and_layers(picture: Picture) -> None:
    with pytest.raises(LookupError, match=r"'crossed'.*encoder, decoder, cross"):
        terminal.render(picture, "crossed")
    with pytest.raises(LookupError, match="no layer 4 of 3"):
        terminal.render(picture, "encoder", 3)


@pytest.mark.parametrize("width", [24, 40, 60, 80, 120, 200])
def test_lines_are_not_wider_than_the_terminal(make_attention: MakeAttention, width: int) -> None:
    words = ("incomprehensibilities", "日本語の単語", "a", "🙂🙂", "was")
    panel = Panel("p", "Panel", words, words, make_attention(4, 1, 12, 5, 5))
    text = printed(alone(panel), "p", width=width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert len([line for line in text.splitlines() if "0." in line]) == len(words)


def test_heads_that_do_not_fit_are_listed(make_attention: MakeAttention) -> None:
    words = ("because", "animal", "street")
    picture = alone(Panel("p", "Panel", words, words, make_attention(5, 1, 8, 3, 3)))
    narrow = printed(picture, "p")
    assert "head 4 " in narrow
    assert "head 5 " not in narrow
    assert "heads 5 to 8 do not fit in 80 columns" in narrow
    wide = printed(picture, "p", width=160)
    assert "head 8" in wide
    assert "do not fit" not in wide


def test_colors_only_where_the_console_has_them(picture: Picture) -> None:
    assert "\x1b" not in printed(picture, "encoder")
    # Head 2 is orange, #ff7f0e.
    assert "\x1b[38;2;255;127;14m" in printed(picture, "encoder", colors=True)


def test_tokens_with_all_keys_masked_get_a_dash(make_attention: MakeAttention) -> None:
    weights = make_attention(6, 1, 2, 2, 2)
    weights[:, :, 1] = 0
    picture = alone(Panel("p", "Panel", ("attends", "masked"), ("a", "b"), weights))
    assert rows(printed(picture, "p"))[1].split() == ["masked", "–", "–", "–"]


def test_control_characters_of_tokens_are_replaced(make_attention: MakeAttention) -> None:
    words = ("\x1b[2Jgone", "[red]not markup[/red]")
    text = printed(
        alone(Panel("p", "\x07Panel", words, words, make_attention(7, 1, 1, 2, 2))), "p", width=120
    )
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]not" in text
