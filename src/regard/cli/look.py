"""regard look: which word looked at which, as a page, live in a browser and in the terminal."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.data.sources.trees import ParsedText
    from regard.insight.picture import Picture


def look(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="What it reads; two are shown side by side. For a model that reads trees, also a "
            ".conllu file."
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="The language to produce; the other one unless given.")
    ] = None,
    sentence: Annotated[
        int | None, typer.Option(min=1, help="Of a .conllu file, which one; the first.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Another run folder to show side by side.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="A page on this machine where you type the text.")
    ] = False,
    history: Annotated[
        bool,
        typer.Option(
            "--history", help="Show attention over training, recorded by `attention_history`."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The page; attention.html in the run folder if not given."
        ),
    ] = None,
    panel: Annotated[
        str | None,
        typer.Option(help="What to show in the terminal: encoder, decoder, cross, experts."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="Which layer to show in the terminal, from 1; the last.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where the live page listens; others reach it unless loopback.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the live page.")] = 8321,
) -> None:
    """Write a page that shows which word looked at which, and a compact view here."""
    from regard.errors import ConfigError

    asked = [
        name for name, given in (("--live", live), ("--history", history), ("TEXT", texts)) if given
    ]
    if len(asked) != 1:
        raise ConfigError(
            "give a text (in quotes), or --live to type it in a browser, or --history; "
            f"given: {' and '.join(asked) or 'none of them'}."
        )
    if len(texts or []) + (compare is not None) > 2:
        raise ConfigError("two can be shown side by side: give two texts, or one and --compare.")
    folders = [run, compare] if compare else [run]
    if history:
        _show_film(run, output)
    elif live:
        _serve(folders, host, port)
    else:
        pictures = [
            _picture(folder, text, to, sentence) for folder in folders for text in texts or []
        ]
        _write(pictures, output or run / "attention.html", panel, layer)


def _picture(run: Path, text: str, to: str | None, sentence: int | None) -> "Picture":
    from regard.data.sources.conllu import is_conllu
    from regard.errors import ConfigError
    from regard.insight.look import look as look_into
    from regard.loading import load

    loaded = load(run)
    if getattr(loaded, "tree_source", None) is not None and is_conllu(Path(text)):
        return look_into(loaded, _sentence(Path(text), sentence or 1), to, title=str(run))
    if sentence is not None:
        raise ConfigError("--sentence is for a .conllu file and a model that reads trees.")
    return look_into(loaded, text, to, title=str(run))


def _sentence(path: Path, number: int) -> "ParsedText":
    """One of a file's, counted from 1."""
    from regard.data.sources.conllu import parsed_sentences
    from regard.errors import DataError

    there = 0
    for each in parsed_sentences(path):
        there += 1
        if there == number:
            return each
    raise DataError(f"{path}: there is no sentence {number}; it has {there:,}.")


def _write(pictures: "list[Picture]", target: Path, panel: str | None, layer: int | None) -> None:
    from rich.console import Console

    from regard.errors import DataError
    from regard.insight import terminal
    from regard.insight.page import render
    from regard.insight.picture import History

    try:
        views = [
            terminal.render(each, panel or _usual(each), None if layer is None else layer - 1)
            for each in pictures
        ]
    except LookupError as error:
        raise DataError(f"{error.args[0]}.") from None
    render.write(History.of(*pictures), target)
    console = Console()
    for view in views:
        console.print(view)
    for note in dict.fromkeys(note for each in pictures for note in each.notes):
        console.print(note, highlight=False)
    console.print(f"The page is {target}; it opens in any browser.", highlight=False)


def _usual(picture: "Picture") -> str:
    """The last panel with attention in it: where there are experts, they come after."""
    from regard.insight.panels.base import EXPERTS

    return [each.name for each in picture.panels if not each.name.startswith(EXPERTS)][-1]


def _show_film(run: Path, output: Path | None) -> None:
    from regard.insight import history
    from regard.insight.page import render

    recorded = history.read_history(run)
    target = output or run / history.PAGE
    render.write(recorded, target)
    typer.echo(
        f"{len(recorded.snapshots)} snapshots: the page is {target}; it opens in any browser."
    )


def _serve(folders: list[Path], host: str, port: int) -> None:
    from regard.insight.live import is_loopback, serve
    from regard.loading import load

    models: list[tuple[str, Any]] = [(str(folder), load(folder)) for folder in folders]
    if not is_loopback(host):
        typer.echo(f"Anyone who can reach {host} can use this page.", err=True)
    typer.echo(f"http://{host}:{port} shows it; Ctrl-C ends.")
    serve(models, host, port)
