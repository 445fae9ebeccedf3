"""regard demo: translate by the pretrained model, then train one on the bundled corpus, offline."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from regard.data.bundled import Corpus
    from regard.predictors.translator import Translator
    from regard.training.reporting.progress import Reporter

RECIPE: dict[str, Any] = {
    "data": {
        "train": {"kind": "grammar", "train_size": 60_000},
        "dev": {"kind": "grammar", "train_size": 60_000, "split": "dev"},
    },
    "tokenizer": {"vocabulary": 2056},
    "model": {"kind": "encoder-decoder", "size": "tiny", "max_length": 128},
    # Many small steps: the rule for pronouns needs many updates more than many tokens.
    "training": {
        "steps": 1600,
        "batch_tokens": 1024,
        "optimizer": {"kind": "muon", "learning_rate": 0.005},
    },
}
TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
EVERYDAY = {
    "en": ["Je voudrais un café, s'il vous plaît.", "Où est la gare la plus proche ?"],
    "fr": ["I lost my keys yesterday evening."],
}
BLEU_BAR, PRONOUN_BAR = 90.0, 0.95


def demo(
    run: Annotated[Path, typer.Option(help="Run folder to write.")] = Path("runs/demo"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Train again and replace the run.")
    ] = False,
) -> None:
    """Translate everyday sentences; then train, score and look into a translator of your own."""
    from regard import run_folder
    from regard.cli._shared.console import reporter, score_table
    from regard.data.sources import grammar
    from regard.insight.look import look
    from regard.insight.page import render
    from regard.insight.run_titles import run_titles
    from regard.loading import load_translator
    from regard.training.recipe import make_recipe
    from regard.training.trainer import train

    report = reporter()
    _show_pretrained(report)
    report.say("Now one of your own, from scratch, on a small grammar of French and English:")
    recipe = make_recipe(RECIPE, (), "the demo's recipe")
    if run_folder.exists(run) and not overwrite:
        report.say(f"Using the trained model in {run} (--overwrite trains again).")
        translator = load_translator(run)
    else:
        translator = train(recipe, run, report, overwrite)
    corpus = cast("grammar.Spec", recipe.data.train[0]).corpus()
    scores = run_folder.read(run).details["scores"]
    pronouns = _resolve_pronouns(translator, corpus, report)
    report.console.print(score_table(scores))
    report.say(
        f"pronouns   {pronouns:.1%} of {len(corpus.pronouns):,} ambiguous *it* and *they* right, "
        f"in combinations of words never seen in training"
    )
    _show_translations(translator, corpus, report)
    render.write(look(translator, TIRED, title=run_titles(run)[0]), run / "attention.html")
    report.say(f"Attention page: open {run / 'attention.html'} in a browser.")
    _check(scores, pronouns)


def _show_pretrained(report: "Reporter") -> None:
    """Translate everyday sentences, and one that is typed at a terminal."""
    from regard.loading import load_translator
    from regard.pretrained import located

    report.say("The French ↔ English model that comes with Regard:")
    translator = load_translator(located(Path("fr-en")))
    for to, lines in EVERYDAY.items():
        _say_translations(lines, translator.translate(lines, to), report)
    if sys.stdin.isatty() and report.console.is_terminal:
        line = report.console.input("A sentence of yours, in French or English (Enter goes on): ")
        if line.strip():
            _say_translations([line], translator.translate([line]), report)


def _say_translations(lines: list[str], translations: list[str], report: "Reporter") -> None:
    from rich.text import Text

    for line, translation in zip(lines, translations, strict=True):
        report.say(Text.assemble(f"  {line}\n    ", (translation, "bold")))


def _resolve_pronouns(translator: "Translator", corpus: "Corpus", report: "Reporter") -> float:
    """Measure how often English *it* becomes the right *il* or *elle*."""
    from regard.evaluation.pronouns import pronoun_accuracy

    with report.bar("Resolving pronouns", len(corpus.pronouns), "sentences") as advance:
        outputs = translator.translate([pair.english for pair in corpus.pronouns], "fr", advance)
    return pronoun_accuracy(outputs, [pair.pronoun or "" for pair in corpus.pronouns])


def _show_translations(translator: "Translator", corpus: "Corpus", report: "Reporter") -> None:
    """Print translations of the lecture's two sentences and of held-out ones, both directions."""
    by_construction = {pair.construction: pair for pair in corpus.dev}
    english = [TIRED, WIDE, *(pair.english for pair in list(by_construction.values())[:3])]
    french = [pair.french for pair in list(by_construction.values())[3:6]]
    for lines, to in ((english, "fr"), (french, "en")):
        _say_translations(lines, translator.translate(lines, to), report)


def _check(scores: dict[str, Any], pronouns: float) -> None:
    """Raise an error if the scores are below those of a working model."""
    from regard.errors import TrainingError

    worst = min(score["bleu"] for score in scores.values())
    if worst < BLEU_BAR or pronouns < PRONOUN_BAR:
        raise TrainingError(
            f"training failed: BLEU {worst:.1f} (at least {BLEU_BAR:.0f} expected), pronouns "
            f"{pronouns:.1%} (at least {PRONOUN_BAR:.0%} expected); try `regard demo --overwrite`."
        )
