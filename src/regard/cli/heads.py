"""regard heads: how far heads differ, and how many are needed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.insight.heads.examples import Examples


def heads(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[
        Path,
        typer.Argument(help="Text it was not trained on: pairs or labels after a tab; plain text."),
    ],
    target: Annotated[
        Path | None, typer.Option(help="The translations, where DATA has the sources alone.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="The language of the translations.")] = None,
    max_lines: Annotated[int, typer.Option(min=1, help="Maximum lines of DATA to read.")] = 1000,
    bleu: Annotated[
        bool, typer.Option("--bleu", help="Translate at each step of the removal, too.")
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0, help="What heads may cost: 1 % of loss; with --bleu, 0.5 BLEU."),
    ] = None,
    prune: Annotated[
        float | None, typer.Option(help="Write a run without this share of its heads: 0.5.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="Write a run without this head: encoder.1.3.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder; RUN/heads, or RUN/pruned, if not given."),
    ] = None,
) -> None:
    """Say what each head looks at, how heads differ, and which can go.

    Writes heads.json, heads.html and figures. With --prune or --remove, writes a smaller run
    instead, whose heads are really gone.
    """
    from regard.errors import ConfigError
    from regard.insight.heads import read_examples
    from regard.insight.heads.head_names import heads_of
    from regard.loading import load

    if prune is not None and remove:
        raise ConfigError("--prune chooses heads and --remove names them: give one of the two.")
    if prune is not None and not 0 < prune < 1:
        raise ConfigError(f"--prune {prune:g}: give the share of heads to remove, between 0 and 1.")
    loaded = load(run)
    if not heads_of(loaded.model):
        raise ConfigError(f"{run}: this model has no heads: heads are what a Transformer looks by.")
    examples = read_examples(loaded, data, target, to, max_lines)
    if prune is None and not remove:
        return _study(loaded, examples, run, bleu, tolerance, output or run / "heads")
    if bleu or tolerance is not None:
        raise ConfigError("--bleu and --tolerance are for looking: leave them out when pruning.")
    return _prune(loaded, examples, run, prune, remove or [], output or run / "pruned")


def _study(
    loaded: Any,
    examples: "Examples",
    run: Path,
    bleu: bool,
    tolerance: float | None,
    folder: Path,
) -> None:
    import json

    from rich.console import Console

    from regard import run_folder
    from regard.atomic import write_all_atomic
    from regard.cli._shared.console import reporter
    from regard.insight.heads import page, study, terminal
    from regard.insight.heads.figures import figures

    run_folder.check_writable(folder)
    found = study(loaded, examples, run, bleu, tolerance, reporter())
    drawn = figures(found)
    files = {f"{name}.svg": svg for name, svg in drawn.items()}
    files["heads.json"] = json.dumps(found.to_json(), indent=1, ensure_ascii=False)
    files["heads.html"] = page.render(found, str(run), drawn)
    run_folder.ensure_writable(folder)
    write_all_atomic(folder, {name: text.encode(errors="replace") for name, text in files.items()})
    console = Console()
    console.print(terminal.table(found))
    for sentence in found.sentences():
        console.print(sentence, highlight=False)
    page_at = folder / "heads.html"
    console.print(f"The page is {page_at}; it opens in any browser.", highlight=False)


def _prune(
    loaded: Any,
    examples: "Examples",
    run: Path,
    share: float | None,
    names: list[str],
    folder: Path,
) -> None:
    from rich.console import Console

    from regard.cli._shared.console import reporter
    from regard.insight.heads import choose, pruning
    from regard.loading import load

    pruning.check_place(run, folder)
    report = reporter()
    if share is None:
        chosen = pruning.named(loaded.model, names)
    else:
        chosen = choose(loaded.model, examples, share, report)
    found = pruning.prune(run, folder, chosen)
    with report.busy("Comparing …"):
        costs = pruning.compared(loaded.model, load(folder).model, examples)
    console = Console()
    console.print(_table(found.heads, found.parameters, costs))
    console.print(f"Gone: {', '.join(map(str, chosen))}.", highlight=False)
    console.print(f"The smaller model is in {folder}.", highlight=False)


def _table(heads: tuple[int, int], parameters: tuple[int, int], costs: Any) -> Any:
    from rich.table import Table

    table = Table("", box=None, header_style="bold", pad_edge=False)
    for column in ("heads", "parameters", "loss", "seconds to read DATA"):
        table.add_column(column, justify="right")
    for which, name in enumerate(("before", "after")):
        loss = "" if costs[which].loss is None else f"{costs[which].loss:.4f}"
        table.add_row(
            name, str(heads[which]), f"{parameters[which]:,}", loss, f"{costs[which].seconds:.2f}"
        )
    return table
