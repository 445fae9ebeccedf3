"""From a run folder to something that can do its job."""

from pathlib import Path
from typing import Any, cast

from regard import runs
from regard.config import validate
from regard.data.corpus import Direction
from regard.data.languages import LanguageGuess
from regard.data.tokenizer import Tokenizer
from regard.decoding.labeller import Labeller
from regard.decoding.translator import Translator
from regard.decoding.writer import Writer
from regard.errors import RunError
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.kind import ModelSpec
from regard.models.language_model import LanguageModel
from regard.models.weights import set_weights
from regard.runs import Run


def load(folder: Path | str) -> Any:
    """What is in a run folder, ready to `translate`, `generate` or `classify`: what it is for."""
    folder = Path(folder)
    run = runs.read(folder)
    makers = {"translation": _translator, "language-model": _writer, "classification": _labeller}
    if run.job not in makers:
        raise RunError(f"{folder}: holds a model for {run.job}, which this version does not know.")
    spec = validate(ModelSpec, run.model, f"{folder / runs.DESCRIPTION}: model")
    model = spec.build(run.vocabulary)
    set_weights(model, run.weights, str(folder / runs.WEIGHTS))
    return makers[run.job](run, model, Tokenizer.from_json(run.tokenizer))


def load_translator(folder: Path | str) -> Translator:
    """The translator in a run folder; a model for something else is refused."""
    loaded = load(folder)
    if not isinstance(loaded, Translator):
        raise RunError(
            f"{folder}: holds a {type(loaded).__name__.lower()}, not a translator; choose a run "
            f"folder made by `regard demo`, or by `regard train` for translation."
        )
    return loaded


def _translator(run: Run, model: Any, tokenizer: Tokenizer) -> Translator:
    ways = [Direction(*way.split(" → ")) for way in run.details["directions"]]
    guess = LanguageGuess.from_json(run.parts["languages.json"])
    length = run.details["max_length"]
    return Translator(cast("EncoderDecoder", model), tokenizer, guess, length, ways)


def _writer(run: Run, model: Any, tokenizer: Tokenizer) -> Writer:
    return Writer(cast("LanguageModel", model), tokenizer, run.details["max_length"])


def _labeller(run: Run, model: Any, tokenizer: Tokenizer) -> Labeller:
    return Labeller(model, tokenizer, run.details["labels"], run.details["max_length"])
