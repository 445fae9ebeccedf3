"""regard heads: study attention heads, and prune them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._shared.files import check_inputs, check_output_folder
from regard.cli._shared.streams import echo
from regard.pretrained import output_folder

if TYPE_CHECKING:
    from regard.insight.heads.examples import Examples


def heads(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    data: Annotated[
        Path,
        typer.Argument(help="Held-out data: pairs or labeled texts as in training, or plain text."),
    ],
    target: Annotated[
        Path | None, typer.Option(help="File of translations, where DATA has only the sources.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="Language of the translations.")] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="key=value setting of DATA: columns=[0,2], header=true, kind=csv … (default: as "
            "in training); may be repeated."
        ),
    ] = None,
    max_lines: Annotated[int, typer.Option(min=1, help="Maximum lines of DATA to read.")] = 1000,
    bleu: Annotated[
        bool, typer.Option("--bleu", help="Also compute BLEU at each step of the ablation.")
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0, help="Tolerated cost (default: 1 % of the loss; with --bleu, 0.5 BLEU)."
        ),
    ] = None,
    prune: Annotated[
        float | None, typer.Option(help="Write a run without this fraction of its heads: 0.5.")
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(help="Write a run without this head: encoder.1.3; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output folder (default: RUN/heads or RUN/pruned)."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --prune or --remove: replace a model.")
    ] = False,
) -> None:
    """Report what each head attends to, how heads differ and which can be pruned.

    Writes heads.json, heads.html and figures. With --prune or --remove, writes a smaller run
    instead.
    """
    from regard.errors import ConfigError
    from regard.insight.heads import read_examples
    from regard.insight.heads.head_names import heads_of
    from regard.insight.heads.pruning import check_place
    from regard.loading import load

    if prune is not None and remove:
        raise ConfigError("--prune chooses heads and --remove names them: give one of the two.")
    if prune is not None and not 0 < prune < 1:
        raise ConfigError(f"--prune {prune:g}: give the share of heads to remove, between 0 and 1.")
    pruning = prune is not None or bool(remove)
    if pruning and (bleu or tolerance is not None):
        raise ConfigError("--bleu and --tolerance have no effect on pruning: leave them out.")
    folder = output or output_folder(run) / ("pruned" if pruning else "heads")
    check_inputs(data, target)
    if pruning:
        check_place(run, folder, overwrite)
    else:
        check_output_folder(folder)
    loaded = load(run)
    if not heads_of(loaded.model):
        raise ConfigError(
            f"{run}: this model has no attention heads; choose the run of a Transformer."
        )
    examples = read_examples(loaded, data, target, to, max_lines, source or ())
    if not pruning:
        return _study(loaded, examples, run, bleu, tolerance, folder)
    return _prune(loaded, examples, run, prune, remove or [], folder, overwrite)


def _study(
    loaded: Any,
    examples: "Examples",
    run: Path,
    bleu: bool,
    tolerance: float | None,
    folder: Path,
) -> None:
    import json

    from regard import run_folder
    from regard.atomic import write_all_atomic
    from regard.cli._shared.console import reporter
    from regard.insight.heads import page, study, terminal
    from regard.insight.heads.figures import figures
    from regard.insight.run_titles import run_titles
    from regard.training.reporting.progress import plain_console

    results = study(loaded, examples, run, bleu, tolerance, reporter())
    drawn = figures(results)
    files = {f"{name}.svg": svg for name, svg in drawn.items()}
    files["heads.json"] = json.dumps(results.to_json(), indent=1, ensure_ascii=False)
    files["heads.html"] = page.render(results, run_titles(run)[0], drawn)
    content = {name: text.encode(errors="replace") for name, text in files.items()}
    with run_folder.writing(folder):
        write_all_atomic(folder, content)
    plain_console().print(terminal.table(results))
    if too_few := results.too_few():
        echo(too_few, err=True)
    for sentence in results.sentences():
        echo(sentence)
    echo(f"The page is {folder / 'heads.html'}; it opens in any browser.")


def _prune(
    loaded: Any,
    examples: "Examples",
    run: Path,
    share: float | None,
    names: list[str],
    folder: Path,
    overwrite: bool,
) -> None:
    from regard.cli._shared.console import reporter
    from regard.insight.heads import choose, pruning
    from regard.loading import load
    from regard.training.reporting.progress import plain_console

    report = reporter()
    if share is None:
        chosen = pruning.named(loaded.model, names)
    else:
        chosen = choose(loaded.model, examples, share, report)
    pruned = pruning.prune(run, folder, chosen, overwrite)
    with report.busy("Comparing …"):
        costs = pruning.compared(loaded.model, load(folder).model, examples)
    plain_console().print(_table(pruned.heads, pruned.parameters, costs))
    echo(f"Removed heads: {', '.join(map(str, chosen))}.")
    echo(f"The smaller model is in {folder}.")


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
