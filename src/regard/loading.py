"""From a run folder to something that can do its job."""

from pathlib import Path

from regard import runs
from regard.config import validate
from regard.data.languages import LanguageGuess
from regard.data.tokenizer import Tokenizer
from regard.decoding.translator import Translator
from regard.errors import RunError
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.kind import ModelSpec
from regard.models.weights import set_weights


def load(folder: Path | str) -> Translator:
    """The translator in a run folder."""
    folder = Path(folder)
    run = runs.read(folder)
    if run.job != "translation":
        raise RunError(
            f"{folder}: holds a model for {run.job}, not for translation; choose a run folder made "
            f"by `regard demo` or `regard train`."
        )
    model = validate(ModelSpec, run.model, f"{folder / runs.DESCRIPTION}: model").build(
        run.vocabulary
    )
    assert isinstance(model, EncoderDecoder)
    set_weights(model, run.weights, str(folder / runs.WEIGHTS))
    tokenizer = Tokenizer.from_json(run.tokenizer)
    guess = LanguageGuess.from_json(run.parts["languages.json"])
    return Translator(model, tokenizer, guess, run.details["max_length"])
