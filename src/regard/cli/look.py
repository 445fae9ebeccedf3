"""regard look: show attention as a page, live in a browser, and in the terminal."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._shared.files import check_output
from regard.cli._shared.streams import echo
from regard.pretrained import output_folder

if TYPE_CHECKING:
    from regard.data.sources.trees import ParsedText
    from regard.insight.picture import Picture


def look(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Input text; two are shown side by side. For a model that needs dependency trees, "
            "also a .conllu file."
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Target language (default: the other one).")
    ] = None,
    sentence: Annotated[
        int | None,
        typer.Option(min=1, help="Number of the sentence in a .conllu file (default: 1)."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Another run folder to show side by side.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Serve a page where you type the text.")
    ] = False,
    history: Annotated[
        bool,
        typer.Option(
            "--history", help="Show attention over training, recorded by `attention_history`."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Page to write (default: RUN/attention.html)."),
    ] = None,
    panel: Annotated[
        str | None,
        typer.Option(help="Panel in the terminal: encoder, decoder, cross or experts."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="Layer in the terminal, from 1 (default: the last).")
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address of the live page; a loopback address is reached from this machine only."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the live page.")] = 8321,
) -> None:
    """Write a page that shows which token attends to which, and print a compact view."""
    from regard.errors import ConfigError
    from regard.insight.run_titles import run_titles

    inputs = {"--live": live, "--history": history, "TEXT": texts}
    chosen = [name for name, value in inputs.items() if value]
    if len(chosen) != 1:
        raise ConfigError(
            "give a text (in quotes), or --live to type it in a browser, or --history; "
            f"given: {' and '.join(chosen) or 'none of them'}."
        )
    if len(texts or []) + (compare is not None) > 2:
        raise ConfigError("two can be shown side by side: give two texts, or one and --compare.")
    folders = [run, compare] if compare else [run]
    page = output or output_folder(run) / "attention.html"
    if not live and (output or page.parent.is_dir()):
        check_output(page, run)
    if history:
        _show_history(run, output)
    elif live:
        _serve(folders, host, port)
    else:
        titles = run_titles(*folders)
        pictures = [
            _picture(folder, title, text, to, sentence)
            for folder, title in zip(folders, titles, strict=True)
            for text in texts or []
        ]
        if output is None:
            page.parent.mkdir(parents=True, exist_ok=True)
        _write(pictures, page, panel, layer)


def _picture(run: Path, title: str, text: str, to: str | None, sentence: int | None) -> "Picture":
    from regard.data.sources.conllu import is_conllu
    from regard.errors import ConfigError
    from regard.insight.look import look as look_into
    from regard.loading import load

    loaded = load(run)
    if getattr(loaded, "tree_source", None) is not None and is_conllu(Path(text)):
        return look_into(loaded, _sentence(Path(text), sentence or 1), to, title=title)
    if sentence is not None:
        raise ConfigError("--sentence is for a .conllu file and a model that reads trees.")
    return look_into(loaded, text, to, title=title)


def _sentence(path: Path, number: int) -> "ParsedText":
    """Return a sentence of a file, counted from 1."""
    from regard.data.sources.conllu import parsed_sentences
    from regard.errors import DataError

    count = 0
    for parsed in parsed_sentences(path):
        count += 1
        if count == number:
            return parsed
    raise DataError(f"{path}: there is no sentence {number}; it has {count:,}.")


def _write(pictures: "list[Picture]", target: Path, panel: str | None, layer: int | None) -> None:
    from regard.errors import DataError
    from regard.insight import terminal
    from regard.insight.page import render
    from regard.insight.picture import History
    from regard.training.reporting.progress import plain_console

    try:
        views = [
            terminal.render(
                picture, panel or _default_panel(picture), None if layer is None else layer - 1
            )
            for picture in pictures
        ]
    except LookupError as error:
        raise DataError(f"{error.args[0]}.") from None
    render.write(History.of(*pictures), target)
    for view in views:
        plain_console().print(view)
    for warning in dict.fromkeys(warning for picture in pictures for warning in picture.warnings):
        echo(warning, err=True)
    for note in dict.fromkeys(note for picture in pictures for note in picture.notes):
        echo(note)
    echo(f"The page is {target}; it opens in any browser.")


def _default_panel(picture: "Picture") -> str:
    """Return the name of the last panel with attention; panels of expert routing follow it."""
    from regard.insight.panels.base import EXPERTS

    return [panel.name for panel in picture.panels if not panel.name.startswith(EXPERTS)][-1]


def _show_history(run: Path, output: Path | None) -> None:
    from regard.insight import history
    from regard.insight.page import render

    recorded = history.read_history(run)
    target = output or run / history.PAGE
    render.write(recorded, target)
    echo(f"{len(recorded.snapshots)} snapshots: the page is {target}; it opens in any browser.")


def _serve(folders: list[Path], host: str, port: int) -> None:
    from regard.insight.live import serve
    from regard.insight.run_titles import run_titles
    from regard.loading import load
    from regard.web.addresses import address_of, is_loopback, listen

    with listen(host, port) as listener:  # before a model is loaded
        models: list[tuple[str, Any]] = list(
            zip(run_titles(*folders), map(load, folders), strict=True)
        )
        if not is_loopback(host):
            echo(f"Anyone who can reach {host} can use this page.", err=True)
        echo(f"{address_of(host, listener)} shows it; Ctrl-C ends.")
        serve(models, host, listener)
